#include "machined/process1/modprobe/kernel-modules.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"

namespace talos::machined {
namespace {

constexpr unsigned kMaxDepth = 32;  // of /sys/devices; real trees have about twelve levels
constexpr kj::StringPtr kOfProcessors[] = {"kernel/drivers/edac/"_kj, "kernel/drivers/hwmon/"_kj};

template <typename F>
void eachLine(kj::StringPtr text, F&& f) {
  const char* p = text.begin();
  while (p < text.end()) {
    const char* end =
        static_cast<const char*>(memchr(p, '\n', static_cast<size_t>(text.end() - p)));
    if (end == nullptr) end = text.end();
    f(kj::arrayPtr(p, end));
    p = end + 1;
  }
}

kj::Vector<kj::String> fieldsOf(kj::ArrayPtr<const char> line) {
  kj::Vector<kj::String> found;
  const char* p = line.begin();
  while (p < line.end()) {
    const char* end = p;
    while (end < line.end() && strchr(" \t\n", *end) == nullptr) ++end;
    if (end > p) found.add(kj::heapString(p, static_cast<size_t>(end - p)));
    p = end + 1;
  }
  return found;
}

}  // namespace

kj::String plainModuleName(kj::StringPtr fileOrName) {
  auto start = fileOrName;
  KJ_IF_MAYBE (slash, start.findLast('/')) {
    start = start.slice(*slash + 1);
  }
  size_t end = start.size();
  for (size_t i = 0; i + 3 <= start.size(); ++i) {
    if (start[i] == '.' && start[i + 1] == 'k' && start[i + 2] == 'o') {
      end = i;
      break;
    }
  }
  auto plain = kj::heapString(start.slice(0, end));
  for (auto& c : plain) {
    if (c == '-') c = '_';
  }
  return plain;
}

kj::StringPtr moduleParameters(kj::StringPtr plainName) {
  if (plainName == "bonding") return "max_bonds=0";
  if (plainName == "dummy") return "numdummies=0";
  return "";
}

kj::String parametersIn(kj::StringPtr commandLine, kj::StringPtr plainName) {
  kj::Vector<kj::String> parameters;
  for (auto& argument : fieldsOf(commandLine)) {
    auto dot = argument.findFirst('.').orDefault(argument.size());
    // A dot after '=' is part of a value.
    if (dot == argument.size() || argument.findFirst('=').orDefault(dot) < dot) continue;
    if (plainModuleName(kj::heapString(argument.slice(0, dot))) == plainName) {
      parameters.add(kj::str(argument.slice(dot + 1)));
    }
  }
  return kj::strArray(parameters, " ");
}

ModuleIndex::ModuleIndex(kj::StringPtr dependencies, kj::StringPtr aliasText,
                         kj::StringPtr builtin) {
  eachLine(dependencies, [&](kj::ArrayPtr<const char> line) {
    auto parts = fieldsOf(line);
    if (parts.size() == 0 || !parts[0].endsWith(":") || parts[0].size() < 2) return;
    Module module;
    module.file = kj::heapString(parts[0].slice(0, parts[0].size() - 1));
    for (size_t i = 1; i < parts.size(); ++i) module.needs.add(kj::mv(parts[i]));
    auto name = plainModuleName(module.file);
    modules.upsert(kj::mv(name), kj::mv(module));
  });
  eachLine(aliasText, [&](kj::ArrayPtr<const char> line) {
    auto parts = fieldsOf(line);
    if (parts.size() == 3 && parts[0] == "alias") {
      size_t literal = strcspn(parts[1].cStr(), "*?[\\");
      aliases.add(Alias{kj::mv(parts[1]), literal, plainModuleName(parts[2])});
    }
  });
  eachLine(builtin, [&](kj::ArrayPtr<const char> line) {
    auto parts = fieldsOf(line);
    if (parts.size() != 1) return;
    auto name = plainModuleName(parts[0]);
    if (builtins.find(name) == nullptr) builtins.insert(kj::mv(name));
  });
}

bool ModuleIndex::add(kj::StringPtr name, Found& found,
                      kj::ArrayPtr<const kj::StringPtr> below) const {
  if (builtins.find(name) != nullptr) {
    found.builtin = true;
    return true;
  }
  KJ_IF_MAYBE (module, modules.find(name)) {
    bool wanted = below.size() == 0;
    for (auto& folder : below) wanted = wanted || module->file.startsWith(folder);
    if (!wanted) return false;
    auto addFile = [&](kj::StringPtr file) {
      for (auto& f : found.files) {
        if (f == file) return;
      }
      found.files.add(file);
    };
    // depmod lists all direct and indirect dependencies, and the one to load first last.
    for (size_t i = module->needs.size(); i > 0; --i) addFile(module->needs[i - 1]);
    addFile(module->file);
    return true;
  }
  return false;
}

kj::Maybe<ModuleIndex::Found> ModuleIndex::find(kj::StringPtr nameOrAlias,
                                                kj::ArrayPtr<const kj::StringPtr> below) const {
  Found found;
  if (add(plainModuleName(nameOrAlias), found, below)) return kj::mv(found);
  bool any = false;
  for (auto& a : aliases) {
    // Most patterns fail here, and fnmatch() takes a hundred times as long.
    if (memcmp(a.pattern.begin(), nameOrAlias.begin(), kj::min(a.literal, nameOrAlias.size())) !=
        0) {
      continue;
    }
    if (fnmatch(a.pattern.cStr(), nameOrAlias.cStr(), 0) == 0 && add(a.module, found, below)) {
      any = true;
    }
  }
  if (any) return kj::mv(found);
  return nullptr;
}

Modules Modules::ofRunningKernel(kj::StringPtr root, Insert call) {
  struct utsname name;
  KJ_SYSCALL(uname(&name));
  auto directory = kj::str(root, "/", static_cast<const char*>(name.release));
  auto read = [&](kj::StringPtr file) {
    return tryReadFile(kj::str(directory, "/", file)).orDefault(kj::String());
  };
  ModuleIndex index(read("modules.dep"), read("modules.alias"), read("modules.builtin"));
  auto commandLine = tryReadFile("/proc/cmdline").orDefault(kj::String());
  return Modules(kj::mv(directory), kj::mv(index), kj::mv(call), kj::mv(commandLine));
}

int Modules::insertIntoKernel(kj::StringPtr directory, kj::StringPtr file,
                              kj::StringPtr parameters) {
  int fd = open(kj::str(directory, "/", file).cStr(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  kj::AutoCloseFd closer(fd);
  return syscall(SYS_finit_module, fd, parameters.cStr(), 0) == 0 ? 0 : errno;
}

// Returns 0 or an errno.
int Modules::tryInsert(kj::StringPtr file, kj::StringPtr parameters) const {
  auto path = kj::str(directory, "/", file);
  if (access(path.cStr(), R_OK) != 0) {
    fail(ErrorKind::kNotFound,
         kj::str("cannot open the kernel module ", path, ": ", strerror(errno)));
  }
  auto name = plainModuleName(file);
  auto booted = parametersIn(commandLine, name);
  kj::Vector<kj::StringPtr> all;
  for (auto part : {moduleParameters(name), booted.asPtr(), parameters}) {
    if (part.size() > 0) all.add(part);
  }
  return call(directory, file, kj::strArray(all, " "));
}

namespace {

kj::String refusalOf(kj::StringPtr directory, kj::StringPtr file, int error) {
  return kj::str("the kernel refused the module ", directory, "/", file, ": ", strerror(error));
}

}  // namespace

bool Modules::insert(kj::StringPtr file, kj::StringPtr parameters) const {
  int error = tryInsert(file, parameters);
  if (error != 0 && error != EEXIST) {
    fail(ErrorKind::kInternal, refusalOf(directory, file, error));
  }
  return error == 0;
}

bool Modules::load(kj::StringPtr nameOrAlias) const {
  KJ_IF_MAYBE (found, index.find(nameOrAlias)) {
    for (auto& file : found->files) insert(file);
    return true;
  }
  return false;
}

namespace {

// Calls `f` with the text of each file "modalias" below the directory; links are not followed.
void eachModalias(kj::AutoCloseFd directory, unsigned depth, kj::Function<void(kj::StringPtr)>& f) {
  DIR* stream = fdopendir(directory.release());
  if (stream == nullptr) return;
  KJ_DEFER(closedir(stream));
  while (auto* entry = readdir(stream)) {
    kj::StringPtr name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != ".." && depth < kMaxDepth) {
      int below =
          openat(dirfd(stream), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      if (below >= 0) eachModalias(kj::AutoCloseFd(below), depth + 1, f);
    } else if (entry->d_type == DT_REG && name == "modalias") {
      int fd = openat(dirfd(stream), entry->d_name, O_RDONLY | O_CLOEXEC);
      if (fd < 0) continue;  // the device is gone
      kj::AutoCloseFd file(fd);
      char text[4096];
      ssize_t size = read(file, text, sizeof(text) - 1);
      while (size > 0 && text[size - 1] == '\n') --size;
      if (size <= 0) continue;
      text[size] = 0;
      f(kj::StringPtr(text, static_cast<size_t>(size)));
    }
  }
}

}  // namespace

// Loads a module of a processor's family, which looks for its part of the machine: the part may be
// missing (ENODEV), or used by another module (EBUSY).
void Modules::loadForProcessor(const ModuleIndex::Found& found,
                               kj::Function<void(kj::StringPtr)>& failed) const {
  for (auto& file : found.files) {
    int error = tryInsert(file, "");
    bool none = error == ENODEV || error == EBUSY;
    if (error != 0 && error != EEXIST && !none) failed(refusalOf(directory, file, error));
  }
}

unsigned Modules::coldplug(kj::Function<void(kj::StringPtr problem)> failed,
                           kj::ArrayPtr<const kj::StringPtr> only, kj::StringPtr devices) const {
  unsigned count = 0;
  kj::Function<void(kj::StringPtr)> each = [&](kj::StringPtr modalias) {
    bool processor = modalias.startsWith("cpu:");
    if (processor && only.size() > 0) return;
    kj::ArrayPtr<const kj::StringPtr> below = only;
    if (processor) below = kOfProcessors;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                   KJ_IF_MAYBE (found, index.find(modalias, below)) {
                     if (found->files.empty()) return;
                     ++count;
                     if (processor) return loadForProcessor(*found, failed);
                     for (auto& file : found->files) insert(file);
                   }
                 })) {
      failed(messageOf(*e));
    }
  };
  int fd;
  KJ_SYSCALL(fd = open(devices.cStr(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), devices);
  eachModalias(kj::AutoCloseFd(fd), 0, each);
  return count;
}

}  // namespace talos::machined
