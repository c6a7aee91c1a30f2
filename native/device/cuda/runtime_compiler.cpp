// Opens NVRTC and hiprtc at run time, as the drivers are opened. HOTSLOT_NVRTC=path and
// HOTSLOT_HIPRTC=path name another library. With the value none, no library is opened.
#include <algorithm>

#include "device/core/library.hpp"
#include "device/cuda/kernels.hpp"

namespace hotslot::cuda {
namespace {

struct Opened {
  Library library;
  RuntimeCalls calls{};
  std::string missing;  // a function that the library lacks
};

Opened open(const RuntimeCompiler& compiler) {
  Opened opened;
  for (const char* name : compiler.libraries)
    if ((opened.library = Library::open({name}, compiler.variable)) || opened.library.named) break;
  const auto find = [&](auto& call, const std::string& name, bool required = true) {
    call = opened.library.symbol<std::remove_reference_t<decltype(call)>>(
        (compiler.prefix + name).c_str());
    if (!call && required && opened.missing.empty()) opened.missing = compiler.prefix + name;
  };
  find(opened.calls.create, "CreateProgram"), find(opened.calls.compile, "CompileProgram");
  find(opened.calls.log_size, "GetProgramLogSize"), find(opened.calls.log, "GetProgramLog");
  find(opened.calls.code_size, std::string("Get") + compiler.code + "Size");
  find(opened.calls.code, std::string("Get") + compiler.code),
      find(opened.calls.destroy, "DestroyProgram");
  find(opened.calls.known_count, "GetNumSupportedArchs", false),
      find(opened.calls.known, "GetSupportedArchs", false);
  return opened;
}

// Opens each compiler once per process. The libraries stay open.
const Opened& opened(const RuntimeCompiler& compiler) {
  static const Opened ours = open(nvrtc), theirs = open(hiprtc);
  return &compiler == &nvrtc ? ours : theirs;
}

// Returns the newest architecture that both the GPU and the library support. If the library does
// not report its architectures, returns `capability`.
int target(const RuntimeCalls& calls, int capability) {
  int count = 0;
  if (!calls.known_count || !calls.known || calls.known_count(&count) != 0 || count <= 0)
    return capability;
  std::vector<int> known(static_cast<size_t>(count));
  if (calls.known(known.data()) != 0) return capability;
  int best = 0;
  for (const int each : known)
    if (each <= capability) best = std::max(best, each);
  return best ? best : capability;
}

}  // namespace

const RuntimeCompiler nvrtc{
    "NVRTC",
    {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"},
    "HOTSLOT_NVRTC",
    "nvrtc",
    "PTX",
    "install the CUDA Toolkit's libnvrtc, or give PTX or a cubin as images.cuda, which npx hotslot "
    "kernels makes where clang is"};
const RuntimeCompiler hiprtc{
    "hiprtc",
    {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5"},
    "HOTSLOT_HIPRTC",
    "hiprtc",
    "Code",
    "install ROCm's hiprtc, or give a code object as images.rocm, which npx hotslot kernels "
    "makes where ROCm's clang is"};

std::string compile(const RuntimeCompiler& compiler, const ModuleRequest& request, int capability) {
  const Opened& with = opened(compiler);
  if (!with.library || !with.missing.empty())
    throw unavailable(
        "kernels '", request.name, "' cannot be compiled here: no ", compiler.name, ": ",
        with.library ? with.library.name + " has no " + with.missing : with.library.reason, "; ",
        compiler.missing);
  const RuntimeCalls& calls = with.calls;
  struct Destroyed {
    const RuntimeCalls& calls;
    ProgramHandle program = nullptr;
    ~Destroyed() {
      if (program) calls.destroy(&program);
    }
  } made{calls};
  const auto check = [&](const char* call, RuntimeResult got) {
    if (got != 0)
      throw unavailable("kernels '", request.name, "': ", compiler.prefix, call, " of ",
                        with.library.name, " failed with ", got);
  };
  std::vector<const char*> texts, names;
  for (auto& [name, text] : request.headers)
    texts.push_back(text.c_str()), names.push_back(name.c_str());
  const std::string source =
      "#include \"gk.hpp\"\n#line 1 \"" + request.file + "\"\n" + request.source + "\n";
  check("CreateProgram", calls.create(&made.program, source.c_str(), request.file.c_str(),
                                      int(texts.size()), texts.data(), names.data()));
  // These are the options of Hotslot's own kernels. They forbid contracted and approximate
  // operations, so that every family rounds alike.
  std::vector<std::string> options{"-std=c++17"};
  if (&compiler == &nvrtc) {
    options.push_back("--fmad=false");
    options.push_back("--gpu-architecture=compute_" + std::to_string(target(calls, capability)));
  } else
    options.push_back("-ffp-contract=off");
  std::vector<const char*> listed;
  for (auto& option : options) listed.push_back(option.c_str());
  const RuntimeResult got = calls.compile(made.program, int(listed.size()), listed.data());
  if (got != 0) {
    size_t bytes = 0;
    std::string log;
    if (calls.log_size(made.program, &bytes) == 0 && bytes > 1) {
      log.resize(bytes);
      if (calls.log(made.program, log.data()) != 0) log.clear();
      while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
    }
    if (got != compilation_failed && log.empty()) check("CompileProgram", got);
    throw not_compiled(sentence("kernels '", request.name, "': ", request.file,
                                " does not compile (", compiler.name, "):\n", log));
  }
  size_t bytes = 0;
  check("GetCodeSize", calls.code_size(made.program, &bytes));
  std::string code(bytes, '\0');
  check("GetCode", calls.code(made.program, code.data()));
  // PTX ends in a zero byte, which std::string adds itself.
  if (&compiler == &nvrtc && !code.empty() && code.back() == '\0') code.pop_back();
  return code;
}

}  // namespace hotslot::cuda
