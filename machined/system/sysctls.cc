#include "machined/system/sysctls.h"

#include <kj/map.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/net/text-values.h"
#include "machined/system/notes-file.h"
#include "machined/system/setting-files.h"
#include "rpc/effects.capnp.h"

namespace talos::machined {
namespace {

struct Original {
  bool readable;
  kj::String value;
};
using Originals = kj::TreeMap<kj::String, Original>;  // by path

Originals load(kj::StringPtr path) {
  Originals result;
  readNotes<rpc::SysctlOriginals>(path, [&](auto notes) {
    for (auto s : notes.getSettings())
      result.insert(kj::str(s.getPath()), Original{s.getReadable(), kj::str(s.getValue())});
  });
  return result;
}

void save(kj::StringPtr path, const Originals& originals) {
  writeNotes<rpc::SysctlOriginals>(path, [&](auto notes) {
    auto settings = notes.initSettings(originals.size());
    unsigned i = 0;
    for (auto& entry : originals) {
      auto setting = settings[i++];
      setting.setPath(entry.key);
      setting.setReadable(entry.value.readable);
      setting.setValue(entry.value.value);
    }
  });
}

// Returns the value with blanks only: the kernel shows tabs where users write blanks.
kj::String normal(kj::StringPtr value) {
  kj::Vector<char> result;
  for (char c : value) {
    bool blank = c == ' ' || c == '\t' || c == '\n';
    if (!blank) {
      result.add(c);
    } else if (result.size() > 0 && result.back() != ' ') {
      result.add(' ');
    }
  }
  while (result.size() > 0 && result.back() == ' ') result.removeLast();
  result.add('\0');
  return kj::String(result.releaseAsArray());
}

void writeOne(const SettingFiles& kernel, const WriteByHelper& byHelper, kj::StringPtr path,
              kj::StringPtr value) {
  if (kernel.has(path)) {
    KJ_IF_MAYBE (error, byHelper(path, lineOf(value))) {
      if (*error != 0) fail(ErrorKind::kFailedPrecondition, strerror(*error));
      return;
    }
  }
  kernel.write(path, value);
}

void setOne(const SettingFiles& kernel, const WriteByHelper& byHelper, kj::StringPtr path,
            const WantedSetting& wanted, kj::Vector<kj::String>& problems) {
  auto failed = kj::runCatchingExceptions([&]() {
    KJ_IF_MAYBE (now, kernel.tryRead(path)) {
      if (normal(*now) == normal(wanted.value)) return;
    }
    writeOne(kernel, byHelper, path, wanted.value);
  });
  KJ_IF_MAYBE (e, failed) {
    problems.add(kj::str("machine.sysctls.", wanted.key, ": cannot set to \"", wanted.value,
                         "\": ", messageOf(*e)));
  }
}

}  // namespace

bool UserSysctls::isOurs(kj::StringPtr path) const {
  return scope == KernelScope::kAll || path.startsWith("net/");
}

bool UserSysctls::begun() const {
  return access(notes.cStr(), F_OK) == 0;
}

SettingProblems UserSysctls::apply(kj::ArrayPtr<const WantedSetting> wanted) {
  std::lock_guard lock(mutex);
  kj::Vector<kj::String> problems;
  SettingFiles kernel(procSys, Links::kNone, "the kernel has no such parameter");
  auto originals = load(notes);
  kj::TreeMap<kj::String, kj::StringPtr> values;  // by path
  for (auto& w : wanted) {
    KJ_IF_MAYBE (path, config::sysctlPath(w.key)) {
      if (!isOurs(*path)) {
        problems.add(kj::str("machine.sysctls.", w.key,
                             ": not set, because this node is a container and the kernel is its "
                             "host's; only net.* is the node's own"));
        continue;
      }
      values.upsert(kj::mv(*path), w.value, [](kj::StringPtr& old, kj::StringPtr&& v) { old = v; });
    } else {
      problems.add(kj::str("machine.sysctls.", w.key, ": not a valid name of a kernel parameter"));
    }
  }
  // Restores the original values of removed parameters.
  kj::Vector<kj::String> restored;
  for (auto& entry : originals) {
    if (values.find(entry.key) != nullptr) continue;
    auto failed = kj::runCatchingExceptions([&]() {
      if (!entry.value.readable) return;  // not known
      writeOne(kernel, byHelper, entry.key, entry.value.value);
    });
    KJ_IF_MAYBE (e, failed) {
      // A parameter that is gone took its value with it.
      if (kernel.has(entry.key)) {
        problems.add(kj::str("/proc/sys/", entry.key, ": cannot restore \"",
                             normal(entry.value.value), "\": ", messageOf(*e)));
        continue;
      }
    }
    restored.add(kj::str(entry.key));
  }
  for (auto& path : restored) originals.erase(path);
  for (auto& entry : values) {
    if (originals.find(entry.key) != nullptr || !kernel.has(entry.key)) continue;
    auto value = kernel.tryRead(entry.key);
    bool readable = value != nullptr;
    originals.insert(kj::str(entry.key), Original{readable, kj::mv(value).orDefault(kj::str())});
  }
  save(notes, originals);
  for (auto& w : wanted) {
    KJ_IF_MAYBE (path, config::sysctlPath(w.key)) {
      if (isOurs(*path)) setOne(kernel, byHelper, *path, w, problems);
    }
  }
  return last.report(kj::mv(problems), true);
}

}  // namespace talos::machined
