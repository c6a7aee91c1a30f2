/**
 * The result of a call, or the error that it threw, as plain data. Programs print it for their
 * test.
 */
export type Told = { value: unknown } | { message: string; code: unknown; cause: string | null };

export async function told(call: () => unknown): Promise<Told & { message?: string }> {
  try {
    return { value: await call() };
  } catch (error) {
    const { message, code, cause } = error as Error & { code?: unknown };
    return { message, code, cause: cause instanceof Error ? cause.message : null };
  }
}
