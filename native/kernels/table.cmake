# Copies images into a folder, and writes a table with their hashes, their compiler and the hash of
# the sources. The table has no dates and no paths, so the same input gives the same bytes on every
# machine. Files that already have these bytes are not written.
#   cmake -DLIST=ptx -DIMAGES=format=file,… -DCOMPILER=… -DSOURCES=folder -DTO=folder -P table.cmake
cmake_minimum_required(VERSION 3.22)

# Sets `out` to the hash of the lines that `sha256sum` prints for the sources in a folder.
function(hash_sources folder out)
  file(GLOB files RELATIVE ${folder} ${folder}/*.gk ${folder}/gk.hpp ${folder}/test/*.gk)
  list(SORT files)
  set(lines "")
  foreach(name IN LISTS files)
    file(SHA256 ${folder}/${name} sum)
    string(APPEND lines "${sum}  ${name}\n")
  endforeach()
  string(SHA256 sum "${lines}")
  set(${out} ${sum} PARENT_SCOPE)
endfunction()

hash_sources(${SOURCES} hash)
set(table "")
string(REPLACE "," ";" IMAGES "${IMAGES}")
foreach(image IN LISTS IMAGES)
  string(REGEX MATCH "^([^=]+)=(.*)$" parts "${image}")
  set(format ${CMAKE_MATCH_1})
  set(file ${CMAKE_MATCH_2})
  string(REGEX REPLACE "^.*:" "" name ${format})
  get_filename_component(base ${file} NAME)
  file(SIZE ${file} size)
  file(SHA256 ${file} sum)
  configure_file(${file} ${TO}/${base} COPYONLY FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  string(APPEND table "IMAGE(${name}, \"${format}\", \"${base}\", ${size}, \"${sum}\", \"${COMPILER}\", \"${hash}\")\n")
endforeach()
file(CONFIGURE OUTPUT ${TO}/${LIST}.inc @ONLY CONTENT "// Written by `npm run build:kernels` from native/kernels/*.gk.
// Name, format, file, its bytes and sha256, compiler, sha256 of the sources.
${table}")
