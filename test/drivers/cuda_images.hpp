// Reads kernel images like a driver: the entries of a PTX text or of an AMD code object, and their
// parameters.
#pragma once
#include <elf.h>

#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

namespace hotslot::software {

// A kernel's parameters, one letter each: q 8 bytes, w 4 bytes, f float, d double, ? anything else.
// `known` says whether the image lists them.
struct Entry {
  std::string parameters;
  bool known = false;
  char reals = 'f';  // type of reals if the image does not list the parameters
};
using Entries = std::map<std::string, Entry>;

// Returns a version as an integer that can be compared: '8.0' as 80, '12.8' as 128.
inline int tenths(const std::string& text) {
  char* end = nullptr;
  const long major = strtol(text.c_str(), &end, 10);
  return int(major * 10 + (end && *end == '.' ? strtol(end + 1, nullptr, 10) : 0));
}

class Ptx {
 public:
  int version = 0, target = 0;  // 63 for .version 6.3, 70 for .target sm_70
  Entries entries;

  explicit Ptx(const char* image) : text_(without_comments(image)) {
    if (const size_t at = text_.find(".version"); at != std::string::npos)
      version = tenths(after(at + 8));
    if (const size_t at = text_.find(".target"); at != std::string::npos) {
      const std::string words = after(at + 7);
      if (words.compare(0, 3, "sm_") == 0) target = int(strtol(words.c_str() + 3, nullptr, 10));
    }
    // Only visible entries can be found by name from outside the module.
    for (size_t at = 0; (at = text_.find(".visible", at)) != std::string::npos;) {
      at = skip(at + 8);
      if (text_.compare(at, 6, ".entry") == 0) entry(skip(at + 6));
    }
  }

 private:
  static std::string without_comments(const char* image) {
    std::string out;
    for (const char* at = image; *at;) {
      if (at[0] == '/' && at[1] == '/') {
        while (*at && *at != '\n') ++at;
      } else if (at[0] == '/' && at[1] == '*') {
        const char* end = strstr(at + 2, "*/");
        at = end ? end + 2 : at + strlen(at);
        out += ' ';
      } else {
        out += *at++;
      }
    }
    return out;
  }
  size_t skip(size_t at) const {
    while (at < text_.size() && isspace(static_cast<unsigned char>(text_[at]))) ++at;
    return at;
  }
  std::string after(size_t at) const { return text_.substr(skip(at), 40); }
  void entry(size_t at) {
    size_t end = at;
    while (end < text_.size() &&
           (isalnum(static_cast<unsigned char>(text_[end])) || strchr("_$%", text_[end])))
      ++end;
    Entry& made = entries[text_.substr(at, end - at)];
    end = skip(end);
    if (end >= text_.size() || text_[end] != '(') {
      made.known = true;  // an entry without a list has no parameters
      return;
    }
    const size_t close = text_.find(')', end);
    if (close == std::string::npos) return;
    made.known = true;
    const std::string list = text_.substr(end, close - end);
    for (size_t param = 0; (param = list.find(".param", param)) != std::string::npos;) {
      param += 6;
      const std::string one = list.substr(param, list.find(',', param) - param);
      made.parameters += letter(one);
    }
  }
  static char letter(const std::string& parameter) {
    if (parameter.find('[') != std::string::npos) return '?';
    for (const char* type : {".u64", ".s64", ".b64"})
      if (parameter.find(type) != std::string::npos) return 'q';
    for (const char* type : {".u32", ".s32", ".b32"})
      if (parameter.find(type) != std::string::npos) return 'w';
    if (parameter.find(".f32") != std::string::npos) return 'f';
    if (parameter.find(".f64") != std::string::npos) return 'd';
    return '?';
  }
  const std::string text_;
};

// The header of the tests' replacement for a code object. Each further line is the name of a
// kernel, with ' f64' after it if its reals are doubles. A line 'arch gfx90a' names the
// architecture.
constexpr const char* hsaco_header = "HOTSLOT-SOFTWARE-HSACO\n";

struct Hsaco {
  bool readable = false;
  std::string arch;  // empty if the image runs on any architecture
  Entries entries;

  explicit Hsaco(const void* image) {
    const char* text = static_cast<const char*>(image);
    if (strncmp(text, hsaco_header, strlen(hsaco_header)) == 0)
      lines(text + strlen(hsaco_header));
    else if (memcmp(text, ELFMAG, SELFMAG) == 0)
      elf(static_cast<const unsigned char*>(image));
  }

 private:
  void lines(const char* text) {
    readable = true;
    while (*text) {
      const char* end = strchrnul(text, '\n');
      const std::string line(text, size_t(end - text));
      const size_t space = line.find(' ');
      const std::string name = line.substr(0, space),
                        word = space == std::string::npos ? "" : line.substr(space + 1);
      if (name == "arch")
        arch = word;
      else if (!name.empty())
        entries[name].reals = word == "f64" ? 'd' : 'f';
      text = *end ? end + 1 : end;
    }
  }
  // Reads an ELF code object, in which each kernel has a symbol with the suffix '.kd'. The image's
  // length is unknown, so the section table is trusted.
  void elf(const unsigned char* image) {
    Elf64_Ehdr head;
    memcpy(&head, image, sizeof head);
    constexpr uint16_t em_amdgpu = 224;
    if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != em_amdgpu ||
        head.e_shentsize != sizeof(Elf64_Shdr))
      return;
    readable = true;
    arch = arch_of(head.e_flags & 0xff);
    const auto section = [&](unsigned i) {
      Elf64_Shdr header{};
      if (i < head.e_shnum)
        memcpy(&header, image + head.e_shoff + i * sizeof header, sizeof header);
      return header;
    };
    for (unsigned i = 0; i < head.e_shnum; ++i) {
      const Elf64_Shdr table = section(i);
      if (table.sh_type != SHT_DYNSYM && table.sh_type != SHT_SYMTAB) continue;
      const char* names = reinterpret_cast<const char*>(image) + section(table.sh_link).sh_offset;
      for (size_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, image + table.sh_offset + at, sizeof symbol);
        const std::string name = names + symbol.st_name;
        if (name.size() > 3 && name.compare(name.size() - 3, 3, ".kd") == 0)
          entries[name.substr(0, name.size() - 3)];
      }
    }
  }
  static std::string arch_of(unsigned number) {
    static const std::map<unsigned, const char*> known{
        {0x2f, "gfx906"},  {0x30, "gfx908"},  {0x3f, "gfx90a"},  {0x40, "gfx940"}, {0x4c, "gfx942"},
        {0x36, "gfx1030"}, {0x41, "gfx1100"}, {0x48, "gfx1200"}, {0x4e, "gfx1201"}};
    const auto found = known.find(number);
    return found == known.end() ? "gfx-" + std::to_string(number) : found->second;
  }
};

}  // namespace hotslot::software
