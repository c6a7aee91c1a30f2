# Gives PTX the header of an older ISA and processor. Whoever calls this has ptxas assemble the result, which refuses it when
# an instruction is newer than the header says.
file(READ ${FILE} text)
string(REGEX REPLACE "\\.version [0-9.]+" ".version ${ISA}" text "${text}")
string(REGEX REPLACE "\\.target sm_[0-9a-z]+" ".target ${TARGET}" text "${text}")
file(WRITE ${FILE} "${text}")
