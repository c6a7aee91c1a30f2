# Writes an older ISA version and an older target into the header of a PTX file. The caller must
# then assemble the file with ptxas, which rejects instructions that are newer than the header.
file(READ ${FILE} text)
string(REGEX REPLACE "\\.version [0-9.]+" ".version ${ISA}" text "${text}")
string(REGEX REPLACE "\\.target sm_[0-9a-z]+" ".target ${TARGET}" text "${text}")
file(WRITE ${FILE} "${text}")
