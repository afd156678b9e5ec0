// Values that decisions about membership are made of.
#pragma once

#include <kj/one-of.h>
#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

#include "common/etcd/etcd.h"

namespace talos::supervisor {

constexpr kj::StringPtr kDataFolder = "/var/lib/etcd"_kj;

struct Argument {
  kj::String key, value;
  bool operator==(const Argument&) const = default;
};

// EtcdConfigs/etcd by value.
struct Config {
  kj::String name;   // of the member
  kj::String image;  // empty: etcd of the system
  kj::Vector<Argument> extraArgs;
  kj::Vector<kj::String> addresses;        // of this node, the advertised one first
  kj::Vector<kj::String> listenAddresses;  // empty: every address
  kj::Vector<kj::String> peers;            // names or addresses of the other control-plane nodes
  kj::Vector<kj::String> shared;           // addresses that move between them
  bool bootstraps = false;
  // Not of the config: this node's member as it was last seen; 0: not known, or none.
  etcd::MemberId member = 0;

  Config clone() const;
};

// The state of the data directory. etcd makes `member/wal` whole, by a rename; before that it has
// promised nothing to anybody, and would start anew.
enum class Data { kNone, kPartial, kWhole };

// The state of a node, as it reports it to others.
struct BootstrapState {
  enum class State { kNone, kClaims, kMakes, kMember };
  kj::String name;
  State state = State::kNone;
  uint64_t cluster = 0;
  int64_t since = 0;  // of a claim
};

// The answer of one address of another node.
struct Asked {
  kj::String host;     // as the config has it, and the address if that is another
  kj::String address;  // empty: the name has none
  bool shared = false;
  kj::OneOf<BootstrapState, kj::String> said;  // or why it did not answer
};

// A member, and whether it answered a probe just now.
struct MemberProbe {
  etcd::Member member;
  bool answers = false;
  kj::String problem = nullptr;  // why it did not
};

// "10.0.0.2" of "https://10.0.0.2:2379"; "fd00::1" of "https://[fd00::1]:2379". Empty: no such URL.
kj::String hostOf(kj::StringPtr url);
kj::String urlOf(kj::StringPtr address, uint16_t port);
// A member for people: its name, or its id when it has none yet.
kj::String describe(const etcd::Member& member);
kj::String hex(etcd::MemberId id);
kj::String joined(kj::ArrayPtr<const kj::String> texts);

etcd::Member clone(const etcd::Member& member);

}  // namespace talos::supervisor
