// Includes the kernel images, unchanged, in the addon's read-only data. `npm run build:kernels`
// writes the images and the tables that list them.
//
// Compilers do not report the files of .incbin as dependencies. But a table contains the sha256 of
// its files. So the table changes when an image changes, and make then compiles this file again.
#include "kernels/images.hpp"

#pragma GCC visibility push(hidden)
#define IMAGE(NAME, FORMAT, FILE, BYTES, SHA256, COMPILER, SOURCES)    \
  asm(".pushsection .rodata\n.balign 16\n.global hotslot_image_" #NAME \
      "\n.hidden hotslot_image_" #NAME "\nhotslot_image_" #NAME        \
      ":\n.incbin \"kernels/images/" FILE "\"\n.byte 0\n.popsection"); \
  extern "C" const char hotslot_image_##NAME[BYTES + 1];
#include "kernels/images/hsaco.inc"
#include "kernels/images/ptx.inc"
#include "kernels/images/spirv.inc"
#undef IMAGE
#pragma GCC visibility pop

namespace hotslot {

#define IMAGE(NAME, FORMAT, FILE, BYTES, SHA256, COMPILER, SOURCES) \
  {FORMAT, COMPILER, SOURCES, hotslot_image_##NAME, BYTES},
const KernelImage hsaco_images[] = {
#include "kernels/images/hsaco.inc"
    {}};
const KernelImage ptx_images[] = {
#include "kernels/images/ptx.inc"
    {}};
const KernelImage spirv_images[] = {
#include "kernels/images/spirv.inc"
    {}};

}  // namespace hotslot
