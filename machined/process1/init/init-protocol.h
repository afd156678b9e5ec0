// The protocol between process 1 and the brain, over a SOCK_SEQPACKET pair; the brain has its end
// as descriptor 3. Both are from the same image, but the version is checked all the same.
//
// Messages are plain structs: one request is one packet, one report is one packet; descriptors
// travel as SCM_RIGHTS. A request that does not pass check() (request-check.h) is refused with a
// reason and has no effect. Everything that process 1 keeps is bounded by the constants in this
// file.
//
// The brain sends a beat each kBeatMs from the loop that does its work. A brain without beats is
// killed and restarted (brain-watchdog.cc).
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace talos::process1 {

constexpr uint32_t kVersion = 2;
constexpr int kBrainFd = 3;

// Name of a held descriptor that process 1 itself adds, in a container: a memory file with the
// base64 of the machine config from the launcher (inside-container.h).
constexpr char kUserData[] = "userdata";

// Name of a held descriptor that says that the running system is not on trial, or no longer. A
// system on trial (talos.trial=SECONDS on the kernel's command line) is rebooted if it does not
// hold this in time (brain-watchdog.cc): the boot loader then starts the system before it.
constexpr char kSettled[] = "upgrade/settled";

// Name of a held descriptor that begins the trial of a system that takes over without a reboot: a
// memory file with the ticks until kSettled must be held, a uint32_t. Process 1 then drops kSettled
// of the system before it.
constexpr char kTrialLimit[] = "upgrade/limit";

constexpr size_t kNameSize = 64;     // of a slot or a held descriptor, terminating zero included
constexpr size_t kCgroupSize = 128;  // relative path, terminating zero included
constexpr size_t kTextSize = 32768;  // argv and environment of one child
constexpr size_t kReasonSize = 160;
constexpr unsigned kMaxStrings = 512;  // argv and environment together
constexpr unsigned kMaxPassed = 16;
constexpr int kMaxPassedAs = 63;
constexpr unsigned kMaxChildren = 256;  // running, or ended and not yet acknowledged
constexpr unsigned kMaxHeld = 256;
constexpr unsigned kMaxReplies =
    64;  // requests that wait for their answer; further ones are not read

constexpr int64_t kBeatMs = 1000;

enum class RequestKind : uint32_t {
  kSpawn = 1,    // descriptors: the output (when hasOutput), then the passed ones
  kSignal,       // name = slot, argument = signal; no reply
  kAcknowledge,  // sequence of a kExit; no reply
  kHold,         // one descriptor
  kDrop,
  kReboot,  // argument = LINUX_REBOOT_CMD_*; replied to only if it is refused
  kBeat,    // no reply
  kBegun,   // argument = a PowerAction that is being carried out; no reply
};

struct Request {
  uint32_t version;
  RequestKind kind;
  uint32_t id;  // repeated in the reply; not 0
  uint32_t argument;
  uint64_t sequence;
  char name[kNameSize];
};

struct Spawn {
  Request head;
  char cgroup[kCgroupSize];  // below the root of the cgroup tree; "" = "init"
  uint64_t memoryMax;        // bytes, of its cgroup; 0: no limit
  uint16_t argc, envc;
  uint8_t hasOutput;
  uint8_t passed;
  uint8_t as[kMaxPassed];
  uint16_t textSize;
  // argc + envc strings, each with its terminating zero. The packet ends after textSize bytes.
  char text[kTextSize];
};

enum class ReportKind : uint32_t {
  kWelcome = 1,  // sequence = number of brains before this one
  kSurvivor,     // name, pid, descriptor: a running child
  kHeld,         // name, descriptor
  kReady,        // the inventory is complete
  kReply,        // id; code = 0 or an errno, text is its message; a spawn: pid, descriptor (pidfd)
  kExit,         // sequence, name, pid, code = status as of wait(2); repeated to each brain until
                 // acknowledged
  kPowerAction,  // code = a PowerAction; repeated to each brain until it says kBegun
};

enum class PowerAction : int32_t { kPowerOff = 1, kReboot = 2 };

struct Report {
  uint32_t version;
  ReportKind kind;
  uint32_t id;
  int32_t code;
  int32_t pid;
  uint32_t unused;
  uint64_t sequence;
  char name[kNameSize];
  char text[kReasonSize];
};

}  // namespace talos::process1
