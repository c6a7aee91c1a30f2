/** The run's name on the server of a storm. */
export const RUN = 'storm';
