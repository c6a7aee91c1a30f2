// The kernels as devices load them: one module per format, made from the same sources as the host
// forms by `npm run build:kernels` and committed under images/.
#pragma once
#include <cstddef>
#include <cstring>
#include <initializer_list>

namespace hotslot {

struct KernelImage {
  const char* format;    // "ptx", "spirv", "hsaco:gfx90a"
  const char* compiler;  // "clang 14.0.6"
  const char* sources;   // sha256 over the sources it was made from
  const void* data;      // a zero byte follows and ends the text of "ptx"
  size_t bytes;          // without that zero
};

// The images of each compiler in images/. An entry without a format ends each list.
extern const KernelImage ptx_images[], spirv_images[], hsaco_images[];

// Returns null if no image of this format was built.
inline const KernelImage* kernel_image(const char* format) {
  for (const KernelImage* image : {ptx_images, spirv_images, hsaco_images})
    for (; image->format; image++)
      if (std::strcmp(image->format, format) == 0) return image;
  return nullptr;
}

}  // namespace hotslot
