#include "talosctl/debug/symbol-files.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/text/ascii.h"
#include "talosctl/client/sent-file.h"

namespace talos::talosctl {
namespace {

constexpr size_t kMostSymbolBytes = 64u << 20;  // compressed size
constexpr size_t kLongestBuildId = 64;          // a linker's build ids have 40 digits

bool isFolder(kj::StringPtr path) {
  struct stat info;
  return stat(path.cStr(), &info) == 0 && S_ISDIR(info.st_mode);
}

// Validates a build id, because it comes from a node and becomes a file name.
bool isBuildId(kj::StringPtr text) {
  for (char c : text) {
    if (!isDigit(c) && (c < 'a' || c > 'f')) return false;
  }
  return text.size() > 0 && text.size() <= kLongestBuildId;
}

// Reads the table with the build id from a folder; from a file, reads its table with any build id.
kj::Maybe<crash::SymbolTable> readSymbols(kj::StringPtr path, kj::StringPtr buildId) {
  auto file = kj::str(path);
  if (isFolder(path)) {
    file = kj::str(path, "/", buildId, crash::kSymbolsSuffix);
    if (access(file.cStr(), F_OK) != 0) return nullptr;
  } else if (access(file.cStr(), F_OK) != 0) {
    fail(ErrorKind::kNotFound, kj::str("there is no file ", file));
  }
  SentFile content(file);
  if (content.size() > kMostSymbolBytes) {
    fail(ErrorKind::kInvalidArgument,
         kj::str(file, ": is larger than ", kMostSymbolBytes, " bytes"));
  }
  try {
    return crash::SymbolTable(crash::gunzip(content.read(0, content.size())));
  } catch (...) {
    auto problem = kj::getCaughtExceptionAsKj();
    fail(kindOf(problem), kj::str(file, ": ", messageOf(problem)));
  }
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
  if (!isBuildId(buildId)) {
    call.err(kj::str("no symbols: the build id \"", printable(buildId),
                     "\" of the node's program is not hexadecimal\n"));
    return nullptr;
  }
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
