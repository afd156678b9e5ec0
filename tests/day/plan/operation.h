// The operations of a random day: faults, and what operators do. Pure.
//
// A row of the table says where a kind of operation can be done, how long it lasts, and what else
// may be done beside it. An operation is a line of the text of a day (day-text.h).
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace talos::day {

// The nodes of a day's cluster: control-plane nodes first, then one worker.
constexpr unsigned kControlPlanes = 3, kNodes = 4, kWorker = 3;
constexpr std::array<const char*, kNodes> kNodeNames = {"master-1", "master-2", "master-3",
                                                        "worker-1"};

enum class Kind {
  kReboot,
  kPowerCut,
  kPause,
  kCutOff,    // no frame reaches the node or leaves it
  kDeaf,      // frames leave the node, and none arrives
  kMute,      // frames reach the node, and none leaves
  kCutLink,   // no frame between the node and one other
  kSlowLink,  // frames are late, and some are lost
  kFullDisk,
  kKill,       // a program, by SIGKILL
  kStop,       // a program, by SIGSTOP until the end
  kPatch,      // several clients change the config at once
  kTry,        // a change of the config that is taken back
  kBadConfig,  // a change of the config after which the node lacks something
  kUpgrade,
  kRollback,
  kBadImage,
  kReset,      // a control-plane node leaves etcd, loses its data and joins again
  kTokenJoin,  // a worker without its STATE joins with a token
  kRenew,      // a client's certificate
  kRotate,     // the CA of the machine API
  kSnapshot,   // of etcd
  kForfeit,    // leadership of etcd
};

// Operations that exclude each other in a bout.
enum class Scope {
  kNode,     // excludes another operation of this scope on its node
  kProgram,  // excludes nothing, except the same program
  kCommand,  // excludes nothing
  kAlone,    // excludes all other operations
};

enum On : unsigned { kOnControlPlanes = 1, kOnWorker = 2, kOnAll = 3 };

struct KindRow {
  Kind kind;
  const char* name;
  Scope scope;
  unsigned on;                  // On
  unsigned least, most;         // ms that it lasts; 0: until its command has ended
  unsigned cost;                // s that a day plans for it beside its time, with the recovery
  bool stays = false;           // it can stay while the others converge (day.h)
  const char* state = nullptr;  // the state that it visits (oracles/state-oracles.h)
};
std::span<const KindRow> allKinds();
const KindRow& rowOf(Kind kind);
// Returns nullptr if no kind has this name.
const KindRow* rowNamed(const std::string& name);

// The programs that are killed and stopped on such a node.
std::span<const char* const> programsOn(unsigned node);

struct Operation {
  unsigned number = 0;  // in its day, from 1
  Kind kind = Kind::kReboot;
  unsigned node = 0;
  std::optional<unsigned> peer;   // of kCutLink
  std::string program;            // of kKill and kStop
  unsigned after = 0, lasts = 0;  // ms: until it begins in its bout, and from then to its end
  unsigned salt = 0;              // decides what else is drawn for it

  bool operator==(const Operation&) const = default;
};

// Returns true if both can be in one bout.
bool agree(const Operation& a, const Operation& b);

}  // namespace talos::day
