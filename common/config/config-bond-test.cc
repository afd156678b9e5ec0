// Every bonding mode with every option: the combinations that the kernel's driver accepts and uses
// (Documentation/networking/bonding.rst), listed a second time so that a mistake in
// common/bond/bond-options.cc shows.

#include <gtest/gtest.h>

#include <string>

#include "common/config/config.h"

namespace talos::config {
namespace {

constexpr const char* kModes[] = {"balance-rr", "active-backup", "balance-xor", "broadcast",
                                  "802.3ad",    "balance-tlb",   "balance-alb"};

struct Row {
  const char* key;
  const char* lines;  // with other options that the option needs
  const char* modes;  // numbers of the modes in which it is legal and has an effect
};
constexpr Row kRows[] = {
    {"miimon", "miimon: 100", "0123456"},
    {"updelay", "miimon: 100\nupdelay: 200", "0123456"},
    {"downdelay", "miimon: 100\ndowndelay: 200", "0123456"},
    {"peerNotifyDelay", "miimon: 100\npeerNotifyDelay: 200", "1"},
    {"useCarrier", "useCarrier: false", "0123456"},
    {"arpInterval", "arpInterval: 100\narpIPTarget: [10.5.0.1]", "0123"},
    {"arpValidate", "arpInterval: 100\narpIPTarget: [10.5.0.1]\narpValidate: all", "0123"},
    {"arpAllTargets", "arpInterval: 100\narpIPTarget: [10.5.0.1]\narpAllTargets: all", "1"},
    {"primary", "primary: eth1", "156"},
    {"primaryReselect", "primary: eth1\nprimaryReselect: better", "156"},
    {"failOverMac", "failOverMac: active", "1"},
    {"xmitHashPolicy", "xmitHashPolicy: layer3+4", "245"},
    {"resendIgmp", "resendIgmp: 255", "0156"},
    {"numPeerNotif", "numPeerNotif: 255", "1"},
    {"allSlavesActive", "allSlavesActive: 1", "0123456"},
    {"minLinks", "minLinks: 1", "4"},
    {"lpInterval", "lpInterval: 5", "56"},
    {"packetsPerSlave", "packetsPerSlave: 0", "0"},
    {"lacpRate", "lacpRate: fast", "4"},
    {"adSelect", "adSelect: count", "4"},
    {"adActorSysPrio", "adActorSysPrio: 1", "4"},
    {"adUserPortKey", "adUserPortKey: 1023", "4"},
    {"adActorSystem", "adActorSystem: 02:00:00:00:00:01", "4"},
    {"tlbDynamicLb", "tlbDynamicLb: 0", "56"},
};

// Returns paths and messages of the problems of the bond, one a line.
std::string said(const std::string& mode, const std::string& lines) {
  std::string bond = "mode: " + mode + "\n" + lines + "\n";
  for (size_t at = 0; at < bond.size(); at = bond.find('\n', at) + 1) bond.insert(at, 10, ' ');
  auto text =
      "version: v1alpha1\nmachine:\n  type: worker\n  token: abcdef.0123456789abcdef\n"
      "  network:\n    interfaces:\n      - interface: bond0\n        bond:\n"
      "          interfaces: [eth1, eth2]\n" +
      bond +
      "cluster:\n  controlPlane: {endpoint: \"https://10.5.0.2:6443\"}\n"
      "  token: abcdef.0123456789abcdef\n";
  auto config = parse(kj::arrayPtr(text.data(), text.size()));
  std::string out;
  for (auto& problem : config.problems()) {
    kj::StringPtr path = problem.path;
    if (!path.startsWith("machine.network")) continue;
    auto key = path.slice(KJ_ASSERT_NONNULL(path.findLast('.')) + 1);
    out += (out.empty() ? "" : "\n") + std::string(kj::str(key, ": ", problem.message).cStr());
  }
  return out;
}

// Catches: an option that the kernel would refuse, or forget, without a warning before; a warning
// about one that is right.
TEST(ConfigBond, EveryModeWithEveryOption) {
  unsigned legal = 0, illegal = 0;
  for (auto& row : kRows) {
    for (unsigned mode = 0; mode < std::size(kModes); ++mode) {
      SCOPED_TRACE(std::string(kModes[mode]) + "\n" + row.lines);
      auto warnings = said(kModes[mode], row.lines);
      if (std::string(row.modes).find(char('0' + mode)) != std::string::npos) {
        EXPECT_EQ("", warnings);
        ++legal;
      } else {
        EXPECT_NE(std::string::npos, warnings.find(std::string(row.key) + ": this is used only"))
            << warnings;
        ++illegal;
      }
    }
  }
  EXPECT_EQ(7 * std::size(kRows), legal + illegal);
}

// Catches: options that are legal alone and exclude, or need, each other; a warning without the
// mode.
TEST(ConfigBond, OptionsThatDoNotGoTogether) {
  struct {
    const char *mode, *lines, *warnings;
  } rows[] = {
      {"balance-rr", "updelay: 100", "updelay: this has no effect without miimon"},
      {"balance-rr", "downdelay: 100", "downdelay: this has no effect without miimon"},
      {"active-backup", "peerNotifyDelay: 100",
       "peerNotifyDelay: this has no effect without miimon"},
      {"active-backup", "arpValidate: all", "arpValidate: this has no effect without arpInterval"},
      {"active-backup", "arpAllTargets: all",
       "arpAllTargets: this has no effect without arpInterval"},
      {"active-backup", "primaryReselect: better",
       "primaryReselect: this has no effect without primary"},
      {"active-backup", "xmitHashPolicy: layer2+3",
       "xmitHashPolicy: this is used only in modes balance-xor, 802.3ad and balance-tlb, not in "
       "active-backup"},
      {"active-backup", "miimon: 100\narpInterval: 100\narpIPTarget: [10.5.0.1]",
       "arpInterval: this cannot be used with miimon; miimon is used"},
      {"active-backup", "miimon: 100\narpValidate: all",
       "arpValidate: this cannot be used with miimon; miimon is used"},
      {"active-backup", "arpInterval: 100", "arpInterval: this has no effect without arpIPTarget"},
      {"balance-xor", "miimon: 100\nupdelay: 150",
       "updelay: 150 is not a multiple of miimon (100); the kernel rounds it down"},
      {"balance-xor", "peerNotifyDelay: 300001\nmiimon: 1", "peerNotifyDelay: 300001 is too large"},
      // These modes switch miimon on by themselves.
      {"802.3ad", "updelay: 100", ""},
      {"balance-tlb", "downdelay: 100", ""},
  };
  for (auto& row : rows) EXPECT_EQ(row.warnings, said(row.mode, row.lines)) << row.lines;
}

}  // namespace
}  // namespace talos::config
