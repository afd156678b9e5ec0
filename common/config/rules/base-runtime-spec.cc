// readRuntimeSpecOverrides() of free-form.h: the overrides of the specification with which
// containerd makes containers (machine.baseRuntimeSpecOverrides), checked against the forms of its
// keys. containerd does not start its plugin for Kubernetes with a value of another form, and runc
// starts no container with a limit that it does not know.

#include <kj/arena.h>

#include "common/config/rules/config-check.h"
#include "common/config/rules/free-form.h"
#include "common/text/foreign-text.h"
#include "common/text/texts.h"

namespace talos::config {
namespace {

using codec::Entry;
using codec::YamlNode;
using NodeKind = YamlNode::Kind;

enum class Form { kText, kBool, kInteger, kUnsigned };
struct Key {
  kj::StringPtr path;  // items of a list as "[]", any key as "*"
  Form form;
};
constexpr Key kSpecKeys[] = {
#include "common/config/rules/runtime-spec-keys.inc"
};

constexpr kj::StringPtr kLimits[] = {
    "RLIMIT_AS"_kj,     "RLIMIT_CORE"_kj,   "RLIMIT_CPU"_kj,        "RLIMIT_DATA"_kj,
    "RLIMIT_FSIZE"_kj,  "RLIMIT_LOCKS"_kj,  "RLIMIT_MEMLOCK"_kj,    "RLIMIT_MSGQUEUE"_kj,
    "RLIMIT_NICE"_kj,   "RLIMIT_NOFILE"_kj, "RLIMIT_NPROC"_kj,      "RLIMIT_RSS"_kj,
    "RLIMIT_RTPRIO"_kj, "RLIMIT_RTTIME"_kj, "RLIMIT_SIGPENDING"_kj, "RLIMIT_STACK"_kj};

// The specification that containerd 1.7 makes for a container by itself (`ctr oci spec`), without
// process.rlimits.
constexpr kj::StringPtr kDefaultSpec = R"json({
"ociVersion": "1.2.0",
"process": {
  "user": {"uid": 0, "gid": 0},
  "cwd": "/",
  "capabilities": {
    "bounding": ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD",
      "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP",
      "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE"],
    "effective": ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD",
      "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP",
      "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE"],
    "permitted": ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD",
      "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP",
      "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE"]
  },
  "noNewPrivileges": true
},
"root": {"path": "rootfs"},
"mounts": [
  {"destination": "/proc", "type": "proc", "source": "proc",
    "options": ["nosuid", "noexec", "nodev"]},
  {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
    "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
  {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
    "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]},
  {"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
    "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]},
  {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue",
    "options": ["nosuid", "noexec", "nodev"]},
  {"destination": "/sys", "type": "sysfs", "source": "sysfs",
    "options": ["nosuid", "noexec", "nodev", "ro"]},
  {"destination": "/run", "type": "tmpfs", "source": "tmpfs",
    "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]}
],
"linux": {
  "resources": {"devices": [{"allow": false, "access": "rwm"}]},
  "cgroupsPath": "/default",
  "namespaces": [{"type": "pid"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"},
    {"type": "network"}],
  "maskedPaths": ["/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
    "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/sys/firmware",
    "/sys/devices/virtual/powercap", "/proc/scsi"],
  "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
}
})json"_kj;

bool isBelow(kj::StringPtr path, kj::StringPtr above, kj::StringPtr separator) {
  return path.startsWith(above) && path.slice(above.size()).startsWith(separator);
}

kj::StringPtr nameOf(Form form) {
  switch (form) {
    case Form::kText:
      return "a text";
    case Form::kBool:
      return "true or false";
    case Form::kInteger:
      return "a whole number";
    case Form::kUnsigned:
      return "a whole number that is not negative";
  }
  return "";
}

bool hasForm(const YamlNode& node, Form form) {
  if (node.kind != NodeKind::kScalar) return false;
  auto type = node.plain ? codec::scalarType(node.text) : codec::ScalarType::kText;
  if (form == Form::kText) return type == codec::ScalarType::kText;
  if (form == Form::kBool) return type == codec::ScalarType::kBool;
  if (type != codec::ScalarType::kInteger) return false;
  auto integer = KJ_ASSERT_NONNULL(codec::parseInteger(node.text));
  return form == Form::kInteger || !integer.negative;
}

// Checks a tree of overrides.
class OverridesCheck {
 public:
  explicit OverridesCheck(kj::Vector<FreeFormMistake>& mistakes) : mistakes(mistakes) {}

  // `form` is the path of the node as the table has it.
  void check(const YamlNode& node, kj::StringPtr path, kj::StringPtr form) {
    bool mapping = false, list = false, anyKey = false;
    for (auto& key : kSpecKeys) {
      if (key.path == form) return checkScalar(node, path, key.form);
      mapping = mapping || isBelow(key.path, form, ".");
      anyKey = anyKey || key.path == kj::str(form, ".*");
      list = list || isBelow(key.path, form, "[]");
    }
    if (list) {
      checkList(node, path, form);
    } else if (mapping) {
      checkMapping(node, path, form, anyKey);
    } else {
      add(path,
          kj::str("not a key that can be overridden: the specification has no such key, or "
                  "containerd sets it for each container"),
          "remove it");
    }
  }

 private:
  kj::Vector<FreeFormMistake>& mistakes;

  void add(kj::StringPtr path, kj::String message, kj::StringPtr hint) {
    mistakes.add(FreeFormMistake{kj::str(path), kj::mv(message), kj::str(hint)});
  }

  void checkScalar(const YamlNode& node, kj::StringPtr path, Form form) {
    if (!hasForm(node, form)) add(path, kj::str("must be ", nameOf(form)), "");
  }

  void checkList(const YamlNode& node, kj::StringPtr path, kj::StringPtr form) {
    if (node.kind != NodeKind::kSequence) return add(path, kj::str("must be a list"), "");
    for (auto i : kj::indices(node.items)) {
      auto item = kj::str(path, "[", i, "]");
      check(*node.items[i], item, kj::str(form, "[]"));
      if (form == "process.rlimits") checkLimit(*node.items[i], item);
    }
  }

  void checkMapping(const YamlNode& node, kj::StringPtr path, kj::StringPtr form, bool anyKey) {
    if (node.kind != NodeKind::kMapping) return add(path, kj::str("must be a mapping"), "");
    for (auto& entry : node.entries) {
      check(*entry.value, keyPath(path, entry.key),
            anyKey ? kj::str(form, ".*") : kj::str(form, ".", entry.key));
    }
  }

  // The forms of the values were checked before.
  void checkLimit(const YamlNode& node, kj::StringPtr path) {
    const YamlNode *type = nullptr, *hard = nullptr, *soft = nullptr;
    for (auto& entry : node.entries) {
      if (entry.key == "type") type = entry.value;
      if (entry.key == "hard") hard = entry.value;
      if (entry.key == "soft") soft = entry.value;
    }
    if (type == nullptr || !contains(kLimits, type->text)) {
      add(kj::str(path, ".type"),
          type == nullptr ? kj::str("missing")
                          : kj::str(jsonString(type->text), " is not a limit of resources"),
          kj::str("use one of ", kj::strArray(kj::ArrayPtr<const kj::StringPtr>(kLimits), ", ")));
    }
    if (hard == nullptr || soft == nullptr) {
      return add(path, kj::str("hard or soft is missing"), "set both");
    }
    if (!hasForm(*hard, Form::kUnsigned) || !hasForm(*soft, Form::kUnsigned)) return;
    auto valueOf = [](const YamlNode& limit) {
      return KJ_ASSERT_NONNULL(codec::parseInteger(limit.text)).magnitude;
    };
    if (valueOf(*soft) > valueOf(*hard)) {
      add(kj::str(path, ".soft"), kj::str("more than hard"), "use the value of hard or less");
    }
  }
};

class Merger {
 public:
  const YamlNode* merge(const YamlNode* base, const YamlNode* over) {
    if (base->kind == NodeKind::kMapping && over->kind == NodeKind::kMapping)
      return &mappings(*base, *over);
    if (base->kind != NodeKind::kSequence || over->kind != NodeKind::kSequence) return over;
    auto& all = arena.allocate<YamlNode>();
    all.kind = NodeKind::kSequence;
    for (auto* item : base->items) all.items.add(item);
    for (auto* item : over->items) all.items.add(item);
    return &all;
  }

 private:
  kj::Arena arena;

  const YamlNode& mappings(const YamlNode& base, const YamlNode& over) {
    auto& all = arena.allocate<YamlNode>();
    all.kind = NodeKind::kMapping;
    auto add = [&](kj::StringPtr key, const YamlNode* value) {
      all.entries.add(Entry{kj::str(key), {}, value, nullptr});
    };
    for (auto& entry : base.entries) {
      auto* other = valueAt(over, entry.key);
      add(entry.key, other == nullptr ? entry.value : merge(entry.value, other));
    }
    for (auto& entry : over.entries) {
      if (valueAt(base, entry.key) == nullptr) add(entry.key, entry.value);
    }
    return all;
  }

  static const YamlNode* valueAt(const YamlNode& mapping, kj::StringPtr key) {
    for (auto& entry : mapping.entries) {
      if (entry.key == key) return entry.value;
    }
    return nullptr;
  }
};

}  // namespace

FreeFormValue readRuntimeSpecOverrides(capnp::List<RawPair>::Reader overrides) {
  FreeFormValue result;
  Problems problems;
  YamlNode given;
  given.kind = NodeKind::kMapping;
  kj::Vector<kj::Own<codec::YamlStream>> streams;
  OverridesCheck check(result.mistakes);
  for (auto pair : overrides) {
    auto& stream = *streams.add(kj::heap<codec::YamlStream>(pair.getValue(), "", problems));
    if (stream.documents().size() == 0) {
      result.mistakes.add(FreeFormMistake{kj::str(pair.getKey()), kj::str("has no value"),
                                          kj::str("set it or remove it")});
      continue;
    }
    auto& value = *stream.documents()[0];
    check.check(value, pair.getKey(), pair.getKey());
    given.entries.add(Entry{kj::str(pair.getKey()), {}, &value, nullptr});
  }
  if (!result.mistakes.empty()) return result;
  codec::YamlStream standard(kDefaultSpec, "", problems);
  Merger merger;
  auto* merged = merger.merge(standard.documents()[0], &given);
  result.derived = kj::str(codec::renderJson(*merged, 2), "\n");
  return result;
}

}  // namespace talos::config
