#include "machined/process1/init/request-check.h"

#include <linux/reboot.h>
#include <string.h>

namespace talos::process1 {
namespace {

bool terminated(const char* text, size_t size) {
  return memchr(text, 0, size) != nullptr;
}

const char* checkSpawn(const Spawn& spawn, size_t size, unsigned descriptors) {
  constexpr size_t fixed = offsetof(Spawn, text);
  if (size < fixed) return "a spawn request is too short";
  if (spawn.textSize > kTextSize || size != fixed + spawn.textSize) {
    return "a spawn request has the wrong length";
  }
  if (!terminated(spawn.cgroup, kCgroupSize)) return "the cgroup is not terminated";
  if (spawn.cgroup[0] != 0 && !plainPath(spawn.cgroup)) return "the cgroup is not a relative path";
  if (spawn.memoryMax > INT64_MAX) return "the limit of memory is too large";
  if (spawn.argc == 0) return "argv is empty";
  unsigned wanted = static_cast<unsigned>(spawn.argc) + spawn.envc;
  if (wanted > kMaxStrings) return "too many arguments and variables";
  unsigned found = 0;
  for (unsigned i = 0; i < spawn.textSize; ++i) found += spawn.text[i] == 0;
  if (found != wanted || spawn.text[spawn.textSize - 1] != 0) {
    return "argv and environment have another number of strings than announced";
  }
  if (spawn.text[0] != '/') return "argv[0] is not an absolute path";
  if (spawn.hasOutput > 1 || spawn.passed > kMaxPassed ||
      descriptors != static_cast<unsigned>(spawn.hasOutput) + spawn.passed) {
    return "a spawn request carries the wrong number of descriptors";
  }
  for (unsigned i = 0; i < spawn.passed; ++i) {
    if (spawn.as[i] < 3 || spawn.as[i] > kMaxPassedAs) {
      return "the number of a descriptor is outside 3..63";
    }
    for (unsigned j = 0; j < i; ++j) {
      if (spawn.as[i] == spawn.as[j]) return "two descriptors have the same number";
    }
  }
  return nullptr;
}

}  // namespace

bool plainPath(const char* path) {
  for (;;) {
    const char* end = strchrnul(path, '/');
    size_t size = static_cast<size_t>(end - path);
    if (size == 0 || (size == 1 && path[0] == '.') || (size == 2 && memcmp(path, "..", 2) == 0)) {
      return false;
    }
    if (*end == 0) return true;
    path = end + 1;
  }
}

const char* check(const void* packet, size_t size, unsigned descriptors) {
  if (size < sizeof(Request)) return "too short for a request";
  Request head;
  memcpy(&head, packet, sizeof(head));
  if (head.version != kVersion) return "unsupported protocol version";
  if (head.id == 0) return "a request without an id";
  if (!terminated(head.name, kNameSize)) return "the name is not terminated";
  bool named = head.name[0] != 0;
  if (head.kind == RequestKind::kSpawn) {
    if (!named) return "a spawn request without a slot";
    return checkSpawn(*static_cast<const Spawn*>(packet), size, descriptors);
  }
  if (size != sizeof(Request)) return "wrong length";
  if (descriptors != (head.kind == RequestKind::kHold ? 1u : 0u))
    return "the wrong number of descriptors";
  switch (head.kind) {
    case RequestKind::kSignal:
      if (!named) return "a signal for no slot";
      return head.argument >= 1 && head.argument <= 64 ? nullptr : "no such signal";
    case RequestKind::kHold:
    case RequestKind::kDrop:
      return named ? nullptr : "a descriptor without a name";
    case RequestKind::kAcknowledge:
    case RequestKind::kBeat:
      return nullptr;
    case RequestKind::kBegun:
      return head.argument == static_cast<uint32_t>(PowerAction::kPowerOff) ||
                     head.argument == static_cast<uint32_t>(PowerAction::kReboot)
                 ? nullptr
                 : "unknown power action";
    case RequestKind::kReboot:
      switch (head.argument) {
        case LINUX_REBOOT_CMD_RESTART:
        case LINUX_REBOOT_CMD_POWER_OFF:
        case LINUX_REBOOT_CMD_HALT:
        case LINUX_REBOOT_CMD_KEXEC:
          return nullptr;
      }
      return "not a valid command of reboot(2)";
    default:
      return "unknown kind of request";
  }
}

void strings(const Spawn& spawn, char** argv, char** environment) {
  char* p = const_cast<char*>(spawn.text);
  for (unsigned i = 0; i < spawn.argc; ++i, p += strlen(p) + 1) argv[i] = p;
  argv[spawn.argc] = nullptr;
  for (unsigned i = 0; i < spawn.envc; ++i, p += strlen(p) + 1) environment[i] = p;
  environment[spawn.envc] = nullptr;
}

}  // namespace talos::process1
