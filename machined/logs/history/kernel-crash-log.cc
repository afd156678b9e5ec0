#include "machined/logs/history/kernel-crash-log.h"

#include <dirent.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/file.h"
#include "common/base/lines.h"
#include "common/base/url-secrets.h"

namespace talos::machined {
namespace {

// A panic is a few parts of at most 64 KiB; more would push out of the record what is newest.
constexpr size_t kMostFiles = 16;
constexpr size_t kMostOfFile = 64u << 10;

}  // namespace

LastWords readLastWords(kj::StringPtr folder) {
  LastWords words;
  if (folder == kPstoreFolder) {
    // Mounted already, or the kernel has none: both are seen below.
    mount("pstore", folder.cStr(), "pstore", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
  }
  auto* directory = opendir(folder.cStr());
  if (directory == nullptr) return words;
  KJ_DEFER(closedir(directory));
  while (auto* entry = readdir(directory)) {
    if (entry->d_name[0] == '.' || words.files.size() == kMostFiles) continue;
    words.files.add(kj::str(folder, "/", entry->d_name));
  }
  std::sort(words.files.begin(), words.files.end());
  kj::Vector<kj::String> lines;
  for (auto& file : words.files) {
    kj::runCatchingExceptions([&]() {
      KJ_IF_MAYBE (text, tryReadFile(file, kMostOfFile)) {
        for (auto line : Lines(*text)) {
          lines.add(kj::str(withoutArgumentSecrets(line), "\n"));
          if (lines.back().startsWith("Panic#")) words.panic = true;
        }
      }
    });
  }
  words.text = kj::strArray(lines, "");
  return words;
}

void forget(const LastWords& words) {
  for (auto& file : words.files) unlink(file.cStr());
}

}  // namespace talos::machined
