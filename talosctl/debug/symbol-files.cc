#include "talosctl/debug/symbol-files.h"

#include <sys/stat.h>

#include "common/base/error.h"
#include "common/base/file.h"

namespace talos::talosctl {
namespace {

constexpr size_t kMostSymbolBytes = 64u << 20;  // compressed

bool isFolder(kj::StringPtr path) {
  struct stat info;
  return stat(path.cStr(), &info) == 0 && S_ISDIR(info.st_mode);
}

// Of a folder, the table with the build id; of a file, its own, whichever it is.
kj::Maybe<crash::SymbolTable> readSymbols(kj::StringPtr path, kj::StringPtr buildId) {
  auto file = kj::str(path);
  if (isFolder(path)) file = kj::str(path, "/", buildId, crash::kSymbolsSuffix);
  KJ_IF_MAYBE (content, tryReadFile(file, kMostSymbolBytes)) {
    try {
      return crash::SymbolTable(crash::gunzip(content->asBytes()));
    } catch (...) {
      auto problem = kj::getCaughtExceptionAsKj();
      fail(kindOf(problem), kj::str(file, ": ", messageOf(problem)));
    }
  }
  if (isFolder(path)) return nullptr;
  fail(ErrorKind::kNotFound, kj::str("there is no file ", file));
}

}  // namespace

void addSymbolsFlag(Command& command) {
  command.flag({.name = "symbols",
                .kind = FlagKind::kText,
                .help = "file or folder of `make symbols`: names the functions of the stack"});
}

kj::Maybe<crash::SymbolTable> symbolsOf(Invocation& call, kj::StringPtr buildId) {
  if (!call.given("symbols")) return nullptr;
  auto path = call.text("symbols");
  KJ_IF_MAYBE (table, readSymbols(path, buildId)) {
    if (table->buildId() == buildId) return kj::mv(*table);
    call.err(kj::str("the symbols of ", path, " are of build ", table->buildId(),
                     ", and the program is of build ", buildId, "\n"));
    return nullptr;
  }
  call.err(kj::str("no symbols of build ", buildId, " in ", path, "\n"));
  return nullptr;
}

}  // namespace talos::talosctl
