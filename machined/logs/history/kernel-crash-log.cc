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

// A panic is a few parts of at most 64 KiB; more would displace the newest part of the record.
constexpr size_t kMostFiles = 16;
constexpr size_t kMostOfFile = 64u << 10;

}  // namespace

KernelCrashLog readKernelCrashLog(kj::StringPtr folder) {
  KernelCrashLog crash;
  if (folder == kPstoreFolder) {
    // It may be mounted already, or the kernel may lack pstore: the code below handles both.
    mount("pstore", folder.cStr(), "pstore", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
  }
  auto* directory = opendir(folder.cStr());
  if (directory == nullptr) return crash;
  KJ_DEFER(closedir(directory));
  while (auto* entry = readdir(directory)) {
    if (entry->d_name[0] == '.' || crash.files.size() == kMostFiles) continue;
    crash.files.add(kj::str(folder, "/", entry->d_name));
  }
  std::sort(crash.files.begin(), crash.files.end());
  kj::Vector<kj::String> lines;
  for (auto& file : crash.files) {
    kj::runCatchingExceptions([&]() {
      KJ_IF_MAYBE (text, tryReadFile(file, kMostOfFile)) {
        for (auto line : Lines(*text)) {
          lines.add(kj::str(withoutArgumentSecrets(line), "\n"));
          if (lines.back().startsWith("Panic#")) crash.panic = true;
        }
      }
    });
  }
  crash.text = kj::strArray(lines, "");
  return crash;
}

void forget(const KernelCrashLog& crash) {
  for (auto& file : crash.files) unlink(file.cStr());
}

}  // namespace talos::machined
