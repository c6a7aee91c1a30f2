// Executes the committed SPIR-V, translated to LLVM bitcode, on a third-party OpenCL device and
// compares it with the host forms. The device is PoCL, or Oclgrind, which finds races and
// uninitialized values.
//   g++ … opencl_harness.cpp native/kernels/*.cpp -lOpenCL -ldl
//   opencl_harness quick|short|all kernels.bc [kernel]
#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>

#include "compared_forms.hpp"

namespace {

void need(cl_int status, const char* call) {
  if (status == CL_SUCCESS) return;
  std::printf("%s answers %d\n", call, int(status));
  std::exit(1);
}

cl_device_id device;
cl_context context;
cl_command_queue queue;
cl_program program;
std::map<std::string, cl_kernel> kernels;

void open(const std::string& path) {
  cl_platform_id platform;
  cl_int status;
  need(clGetPlatformIDs(1, &platform, nullptr), "clGetPlatformIDs");
  need(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr), "clGetDeviceIDs");
  context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status),
  need(status, "clCreateContext");
  queue = clCreateCommandQueueWithProperties(context, device, nullptr, &status);
  need(status, "clCreateCommandQueueWithProperties");
  std::ifstream file(path, std::ios::binary);
  const std::vector<unsigned char> bytes{std::istreambuf_iterator<char>(file), {}};
  const size_t size = bytes.size();
  const unsigned char* at = bytes.data();
  program = clCreateProgramWithBinary(context, 1, &device, &size, &at, nullptr, &status);
  need(status, "clCreateProgramWithBinary");
  need(clBuildProgram(program, 1, &device, "", nullptr, nullptr), "clBuildProgram");
  char name[200] = "";
  need(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, nullptr), "clGetDeviceInfo");
  std::printf("on %s\n", name);
}

cl_kernel kernel_of(const std::string& name) {
  cl_kernel& kernel = kernels[name];
  cl_int status = CL_SUCCESS;
  if (!kernel) kernel = clCreateKernel(program, name.c_str(), &status);
  need(status, ("clCreateKernel of " + name).c_str());
  return kernel;
}

// Runs one grid instead of two.
bool quick = false;

}  // namespace

std::vector<Grid> grids() {
  if (brief && (quick || many_steps)) return {{2, 5, false}};
  if (brief) return {{2, 5, false}, {2, 32, false}};
  return {{3, 7, false}, {2, 32, false}, {3, 100, false}, {2, 256, false}};
}

std::string execute(const Kernel& kernel, Buffers& buffers, const Words& wholes,
                    const std::vector<double>& reals, size_t same, const Grid& grid) {
  const cl_kernel launched = kernel_of(kernel.name);
  std::vector<cl_mem> memory;
  cl_uint argument = 0;
  for (auto& buffer : buffers) {
    cl_int status;
    memory.push_back(clCreateBuffer(
        context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, 4 * std::max<size_t>(1, buffer.size()),
        buffer.empty() ? &argument : static_cast<void*>(buffer.data()), &status));
    need(status, "clCreateBuffer");
  }
  for (size_t i = 0; i < memory.size(); i++)
    need(clSetKernelArg(launched, argument++, sizeof(cl_mem), &memory[i == 0 ? same : i]),
         "clSetKernelArg");
  for (const int64_t whole : wholes)
    need(clSetKernelArg(launched, argument++, sizeof whole, &whole), "clSetKernelArg");
  for (const double each : reals) {
    const float real = float(each);
    need(clSetKernelArg(launched, argument++, sizeof real, &real), "clSetKernelArg");
  }
  const size_t all = grid.blocks * grid.threads;
  need(
      clEnqueueNDRangeKernel(queue, launched, 1, nullptr, &all, &grid.threads, 0, nullptr, nullptr),
      "clEnqueueNDRangeKernel");
  for (size_t i = 0; i < memory.size(); i++) {
    if (!buffers[i].empty())
      need(clEnqueueReadBuffer(queue, memory[i], CL_TRUE, 0, 4 * buffers[i].size(),
                               buffers[i].data(), 0, nullptr, nullptr),
           "clEnqueueReadBuffer");
    need(clReleaseMemObject(memory[i]), "clReleaseMemObject");
  }
  return {};
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  quick = std::strcmp(argv[1], "quick") == 0;
  brief = quick || std::strcmp(argv[1], "short") == 0;
  only = argc > 3 ? argv[3] : "";
  open(argv[2]);
  compare_all();
  if (only.empty()) check_covered();
  std::printf("%zu kernels and outputs over inputs compared: %d failures\n", covered.size(),
              failures.load());
  return failures > 0;
}
