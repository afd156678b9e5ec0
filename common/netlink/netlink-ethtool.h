// Settings of a link's driver as the kernel knows them (linux/ethtool_netlink.h, generic netlink
// family "ethtool"): sizes of rings, numbers of channels, features and Wake-on-LAN. The values that
// are read and set, their messages, and the socket for them.
//
// A setting exists only in the kernel, for as long as the link does. Names are those of the
// document EthernetConfig, which are the kernel's own except for three modes of Wake-on-LAN.
#pragma once

#include <kj/array.h>
#include <kj/memory.h>
#include <kj/string.h>
#include <stdint.h>

#include <optional>
#include <string>
#include <vector>

namespace talos::netlink {

struct Generic;

// Groups of settings, in the order in which they are set.
enum class EthernetGroup { kRings, kFeatures, kChannels, kWakeOnLan };
constexpr EthernetGroup kEthernetGroups[] = {EthernetGroup::kRings, EthernetGroup::kFeatures,
                                             EthernetGroup::kChannels, EthernetGroup::kWakeOnLan};
// Returns "rings", "features", "channels" or "wakeOnLan".
kj::StringPtr nameOf(EthernetGroup group);

struct EthernetNumber {
  std::string name;                   // "rx", "tx-push"
  uint32_t value = 0;                 // 0 or 1 for a number that is on or off
  std::optional<uint32_t> most = {};  // the driver's maximum
  bool operator==(const EthernetNumber&) const = default;
};
struct EthernetFeature {
  std::string name;
  bool active = false;
  bool requested = false;  // it is on unless another feature or the link's state prevents it
  bool fixed = true;       // the driver does not let it change
  bool operator==(const EthernetFeature&) const = default;
};
struct WakeOnLan {
  std::vector<std::string> enabled, supported;
  bool operator==(const WakeOnLan&) const = default;
};

struct EthernetState {
  // nullopt: the driver does not have the group.
  std::optional<std::vector<EthernetNumber>> rings, channels;
  std::vector<EthernetFeature> features;
  std::optional<WakeOnLan> wakeOnLan;
  bool operator==(const EthernetState&) const = default;
};

// Changes only the named values; but of Wake-on-LAN the named modes are enabled, and all others
// disabled.
struct SetEthernet {
  struct Value {
    std::string name;
    uint32_t value = 1;
    bool operator==(const Value&) const = default;
  };
  unsigned index = 0;
  EthernetGroup group = EthernetGroup::kRings;
  std::vector<Value> values = {};
  bool operator==(const SetEthernet&) const = default;
};
// Returns "rings rx 512, tx-push on", for logs and problems.
kj::String describe(const SetEthernet& set);

// --- pure
// `family` is the number that the kernel gave to "ethtool". Both have NLM_F_ACK.
kj::Array<kj::byte> encodeEthernetRequest(uint16_t family, unsigned index, EthernetGroup group);
// Throws kInvalidArgument for a ring or channel with another name.
kj::Array<kj::byte> encodeEthernet(uint16_t family, const SetEthernet& set);
// Replaces the group that the message is about; ignores other messages.
void readEthernet(const Generic& message, EthernetState& state);

// --- edge
class Ethtool {
 public:
  virtual ~Ethtool() noexcept(false) = default;

  // Throws the kernel's error: kUnimplemented if the kernel has no such family, else
  // kFailedPrecondition.
  virtual EthernetState read(unsigned index) = 0;
  // Returns the kernel's or the driver's error; nullptr if the settings are made, which does not
  // mean that the driver has exactly these values now.
  virtual kj::Maybe<kj::String> set(const SetEthernet& set) = 0;
};
// Returns the drivers of the links in the calling thread's network namespace. Opens its socket at
// the first call.
kj::Own<Ethtool> openEthtool();

}  // namespace talos::netlink
