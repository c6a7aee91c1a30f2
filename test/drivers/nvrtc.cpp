// The libnvrtc of the tests and, with -DHOTSLOT_SOFTWARE_HIPRTC, the libhiprtc. Both implement the
// vendors' interface on top of clang-14. The former compiles to real PTX. The latter checks the
// source and returns the software driver's replacement for a code object. They are as strict as the
// vendors' libraries where they can be. Only given headers exist, and unknown options are rejected.
// Only a successful compilation has code, and a destroyed program is invalid.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

enum Result : int {
  done = 0,
  creation_failed = 2,
  invalid_input = 3,
  invalid_program = 4,
  invalid_option = 5,
  compilation_failed = 6
};

struct Program {
  std::string source, name, log, code;
  std::vector<std::pair<std::string, std::string>> headers;
  bool tried = false, compiled = false;
};

std::mutex lock;
std::set<Program*> programs;

Program* find(Program* program) {
  std::lock_guard guard(lock);
  return programs.count(program) ? program : nullptr;
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}
std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

#ifdef HOTSLOT_SOFTWARE_HIPRTC
const std::regex known_option("-std=c\\+\\+1[147]|-ffp-contract=off|--offload-arch=gfx\\w+");
// clang compiles without AMD's library, because it knows what the source declares.
constexpr const char* command =
    "clang-14 -x hip --cuda-device-only --offload-arch=gfx90a -nogpuinc -nogpulib -fsyntax-only";
#else
const std::regex known_option(
    "-std=c\\+\\+1[147]|--std=c\\+\\+1[147]|--fmad=(true|false)|--gpu-architecture=compute_\\d+");
constexpr const char* command =
    "clang-14 -x cuda --cuda-device-only --cuda-gpu-arch=sm_60 -nocudainc -nocudalib "
    "-Wno-unknown-cuda-version -Xclang "
    "-target-feature -Xclang +ptx63 -O2 -ffp-contract=off -S -o out.ptx";
#endif

Result compile(Program& program) {
  char folder[] = "/tmp/hotslot-nvrtc-XXXXXX";
  if (!mkdtemp(folder)) return creation_failed;
  const std::string at = folder;
  for (auto& [name, text] : program.headers) write(at + "/" + name, text);
  write(at + "/in.cu", program.source);
  const std::string line = "cd " + at + " && " + command + " -I. in.cu >log 2>&1";
  const int status = std::system(line.c_str());
  program.log = read(at + "/log");
  program.tried = true;
  program.compiled = status == 0;
#ifdef HOTSLOT_SOFTWARE_HIPRTC
  program.code = "HOTSLOT-SOFTWARE-HSACO\n";
  const std::regex kernel("\\bGK_KERNEL\\s+(\\w+)");
  for (std::sregex_iterator each(program.source.begin(), program.source.end(), kernel), end;
       each != end; ++each)
    program.code += (*each)[1].str() + "\n";
#else
  program.code = read(at + "/out.ptx");
#endif
  const std::string clear = "rm -rf " + at;
  if (std::system(clear.c_str()) != 0) return creation_failed;
  return program.compiled ? done : compilation_failed;
}

}  // namespace

#ifdef HOTSLOT_SOFTWARE_HIPRTC
#define NAMED(name) hiprtc##name
#define CODE(rest) hiprtcGetCode##rest
constexpr bool text = false;
#else
#define NAMED(name) nvrtc##name
#define CODE(rest) nvrtcGetPTX##rest
constexpr bool text = true;
#endif
#define EXPORT extern "C" __attribute__((visibility("default"))) int

EXPORT NAMED(CreateProgram)(Program** out, const char* source, const char* name, int headers,
                            const char* const* texts, const char* const* names) {
  if (!out || !source || headers < 0 || (headers > 0 && (!texts || !names))) return invalid_input;
  auto* made = new Program{source, name ? name : "default_program", "", "", {}};
  for (int i = 0; i < headers; ++i) made->headers.emplace_back(names[i], texts[i]);
  std::lock_guard guard(lock);
  programs.insert(made);
  *out = made;
  return done;
}

EXPORT NAMED(CompileProgram)(Program* handle, int count, const char* const* options) {
  Program* const program = find(handle);
  if (!program || program->tried) return invalid_program;
  for (int i = 0; i < count; ++i)
    if (!std::regex_match(options[i], known_option)) return invalid_option;
  return compile(*program);
}

EXPORT NAMED(GetProgramLogSize)(Program* handle, size_t* bytes) {
  Program* const program = find(handle);
  if (!program || !program->tried) return invalid_program;
  return *bytes = program->log.size() + 1, done;
}

EXPORT NAMED(GetProgramLog)(Program* handle, char* to) {
  Program* const program = find(handle);
  if (!program || !program->tried) return invalid_program;
  return std::memcpy(to, program->log.c_str(), program->log.size() + 1), done;
}

EXPORT CODE(Size)(Program* handle, size_t* bytes) {
  Program* const program = find(handle);
  if (!program || !program->compiled) return invalid_program;
  return *bytes = program->code.size() + (text ? 1 : 0), done;
}

EXPORT CODE()(Program* handle, char* to) {
  Program* const program = find(handle);
  if (!program || !program->compiled) return invalid_program;
  return std::memcpy(to, program->code.c_str(), program->code.size() + (text ? 1 : 0)), done;
}

EXPORT NAMED(DestroyProgram)(Program** handle) {
  std::lock_guard guard(lock);
  if (!handle || !programs.erase(*handle)) return invalid_program;
  delete *handle;
  return *handle = nullptr, done;
}

// Returns the number of programs that were not destroyed.
extern "C" __attribute__((visibility("default"))) size_t hotslot_software_programs() {
  std::lock_guard guard(lock);
  return programs.size();
}
