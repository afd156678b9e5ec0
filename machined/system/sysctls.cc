#include "machined/system/sysctls.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <errno.h>
#include <fcntl.h>
#include <kj/map.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/net/text-values.h"
#include "machined/system/system-tree.h"
#include "rpc/effects.capnp.h"

namespace talos::machined {
namespace {

constexpr size_t kLargestValue = 65536;

struct Original {
  bool readable;
  kj::String value;
};
using Originals = kj::TreeMap<kj::String, Original>;  // by path

Originals load(kj::StringPtr path) {
  Originals result;
  KJ_IF_MAYBE (content, tryReadFile(path)) {
    auto words = kj::heapArray<capnp::word>(content->size() / sizeof(capnp::word));
    memcpy(words.begin(), content->begin(), words.asBytes().size());
    capnp::FlatArrayMessageReader reader(words);
    for (auto s : reader.getRoot<rpc::SysctlOriginals>().getSettings())
      result.insert(kj::str(s.getPath()), Original{s.getReadable(), kj::str(s.getValue())});
  }
  return result;
}

void save(kj::StringPtr path, const Originals& originals) {
  capnp::MallocMessageBuilder message;
  auto settings = message.initRoot<rpc::SysctlOriginals>().initSettings(originals.size());
  unsigned i = 0;
  for (auto& entry : originals) {
    auto setting = settings[i++];
    setting.setPath(entry.key);
    setting.setReadable(entry.value.readable);
    setting.setValue(entry.value.value);
  }
  auto words = capnp::messageToFlatArray(message);
  writeFileAtomically(path, words.asChars(), 0600);
}

// The kernel separates with tabs what one writes with blanks.
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

class Kernel {
 public:
  explicit Kernel(kj::StringPtr procSys) : tree(openTree(procSys)) {}

  // Throws with the kernel's message.
  void write(kj::StringPtr path, kj::StringPtr value) {
    auto file = open(path, O_WRONLY);
    // With the end of the line: a write of no bytes at all would leave what is there.
    auto line = value.endsWith("\n") ? kj::str(value) : kj::str(value, "\n");
    ssize_t written = ::write(file, line.begin(), line.size());
    if (written < 0) fail(ErrorKind::kFailedPrecondition, strerror(errno));
  }
  kj::Maybe<kj::String> tryRead(kj::StringPtr path) {
    kj::Maybe<kj::String> result;
    // Some can be written only.
    auto ignored = kj::runCatchingExceptions([&]() {
      auto text = readAll(open(path, O_RDONLY), kLargestValue);
      result = kj::heapString(text.begin(), text.size());
    });
    return result;
  }
  bool has(kj::StringPtr path) { return tryOpen(tree, path, O_PATH, Links::kNone) != nullptr; }

 private:
  kj::AutoCloseFd tree;

  kj::AutoCloseFd open(kj::StringPtr path, int flags) {
    auto file = tryOpen(tree, path, flags, Links::kNone);
    KJ_IF_MAYBE (fd, file) return kj::mv(*fd);
    fail(ErrorKind::kNotFound, "the kernel has no such parameter");
  }
};

void setOne(Kernel& kernel, kj::StringPtr path, const WantedSysctl& wanted,
            kj::Vector<kj::String>& problems) {
  auto failed = kj::runCatchingExceptions([&]() {
    KJ_IF_MAYBE (now, kernel.tryRead(path)) {
      if (normal(*now) == normal(wanted.value)) return;
    }
    kernel.write(path, wanted.value);
  });
  KJ_IF_MAYBE (e, failed) {
    problems.add(kj::str("machine.sysctls.", wanted.key, ": cannot set to \"", wanted.value,
                         "\": ", messageOf(*e)));
  }
}

}  // namespace

kj::Vector<WantedSysctl> wantedSysctls(config::Machine::Reader machine) {
  kj::Vector<WantedSysctl> result;
  for (auto sysctl : machine.getSysctls())
    result.add(WantedSysctl{kj::str(sysctl.getKey()), kj::str(sysctl.getValue())});
  return result;
}

bool UserSysctls::isOurs(kj::StringPtr path) const {
  return scope == SysctlScope::kAll || path.startsWith("net/");
}

bool UserSysctls::begun() const {
  return access(notes.cStr(), F_OK) == 0;
}

SysctlProblems UserSysctls::apply(kj::ArrayPtr<const WantedSysctl> wanted) {
  std::lock_guard lock(mutex);
  kj::Vector<kj::String> problems;
  Kernel kernel(procSys);
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
  // Back to what was there before.
  kj::Vector<kj::String> restored;
  for (auto& entry : originals) {
    if (values.find(entry.key) != nullptr) continue;
    auto failed = kj::runCatchingExceptions([&]() {
      if (!entry.value.readable) return;  // nobody knows
      kernel.write(entry.key, entry.value.value);
    });
    KJ_IF_MAYBE (e, failed) {
      // One that is gone took its value with it.
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
      if (isOurs(*path)) setOne(kernel, *path, w, problems);
    }
  }
  auto text = kj::strArray(problems, "\n");
  bool news = text != lastReported;
  lastReported = kj::mv(text);
  return {kj::mv(problems), news};
}

}  // namespace talos::machined
