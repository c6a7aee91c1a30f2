// The kernels as devices load them: one module per format. `npm run build:kernels` makes the
// modules from the same sources as the host forms. They are committed under images/.
#pragma once
#include <cstddef>
#include <cstring>
#include <initializer_list>

namespace hotslot {

struct KernelImage {
  const char* format;    // such as "ptx", "spirv" or "hsaco:gfx90a"
  const char* compiler;  // such as "clang 14.0.6"
  const char* sources;   // sha256 of the sources that it was made from
  const void* data;      // a zero byte follows, which ends the text of "ptx"
  size_t bytes;          // without the zero byte
};

// The images that each compiler made. An entry without a format ends each list.
extern const KernelImage ptx_images[], spirv_images[], hsaco_images[];

// Returns the image of this format, or null if none was built.
inline const KernelImage* kernel_image(const char* format) {
  for (const KernelImage* image : {ptx_images, spirv_images, hsaco_images})
    for (; image->format; image++)
      if (std::strcmp(image->format, format) == 0) return image;
  return nullptr;
}

}  // namespace hotslot
