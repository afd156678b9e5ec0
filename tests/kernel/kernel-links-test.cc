// The typed layer and the model kernel against the real one.
#include <errno.h>

#include "common/bond/bond-options.h"
#include "common/netlink/model/test-kernel.h"
#include "common/netlink/test-netlink.h"
#include "tests/kernel/namespaces.h"

namespace talos::netlink {
namespace {

using O = BondOption;

// Catches: an image without a driver, a kernel that cannot load it, drivers that make links by
// themselves (bond0, dummy0). Must be the first test: afterwards the drivers are loaded.
TEST(AFirst, TheKernelLoadsTheDriverOfEveryKind) {
  Namespace ns;
  ns.run([] {
    auto kernel = openKernel();
    unsigned dummy = addLink(*kernel, "dummy7", Dummy{});
    addLink(*kernel, "bond7", Bond{});
    addLink(*kernel, "br7", Bridge{});
    addLink(*kernel, "wg7", Wireguard{});
    addLink(*kernel, "dummy7.9", Vlan{dummy, 9});
    EXPECT_EQ(kernel->links().size(), 6u);  // and lo
  });
}

// A value that is legal and not the standard.
uint32_t other(const BondRule& rule) {
  if (rule.option == O::kUseCarrier) return 0;
  uint32_t value = rule.standard == rule.least ? rule.least + 1 : rule.least;
  return value <= rule.most ? value : rule.standard;
}
BondMode fittingMode(const BondRule& rule) {
  for (unsigned mode : {1u, 0u, 4u, 5u}) {
    if (rule.fits(BondMode(mode))) return BondMode(mode);
  }
  KJ_UNREACHABLE;
}

// Catches: attributes with a wrong number, width or meaning: each option alone is set and read
// back.
TEST(KernelLinks, EveryBondOptionIsWhatItIsCalled) {
  Namespace ns;
  ns.run([] {
    auto kernel = openKernel();
    for (auto& rule : bondRules()) {
      if (rule.option == O::kPrimary || rule.option == O::kActiveMember) continue;
      BondOptions options;
      options[O::kMode] = uint32_t(fittingMode(rule));
      bool delay = rule.option == O::kUpDelay || rule.option == O::kDownDelay ||
                   rule.option == O::kPeerNotifDelay;
      if (delay) options[O::kMiimon] = 1;
      options[rule.option] = other(rule);
      kj::String words;
      EXPECT_EQ(codeOf(*kernel, AddLink{kj::str("bond1"), Bond{options}}, &words), 0)
          << words.cStr();
      auto link = KJ_ASSERT_NONNULL(findLink(*kernel, "bond1"));
      ASSERT_TRUE(link.bond.has_value());
      EXPECT_TRUE((*link.bond)[rule.option] == other(rule))
          << rule.name.cStr() << ": " << describe(*link.bond).cStr();
      change(*kernel, DeleteLink{link.index});
    }
  });
}

// Catches: a standard that is not the kernel's, which the planner would set again and again.
TEST(KernelLinks, TheStandardOfEveryBondOptionIsTheKernels) {
  Namespace ns;
  ns.run([] {
    auto kernel = openKernel();
    for (unsigned mode = 0; mode < kBondModes; ++mode) {
      BondOptions options;
      options[O::kMode] = mode;
      auto link = KJ_ASSERT_NONNULL(
          findLink(*kernel, (addLink(*kernel, "bond1", Bond{options}), "bond1"_kj)));
      for (auto& rule : bondRules()) {
        auto& value = (*link.bond)[rule.option];
        if (!value || rule.option == O::kMode) continue;
        EXPECT_EQ(*value, rule.standardIn(BondMode(mode)))
            << rule.name.cStr() << " in " << nameOf(BondMode(mode)).cStr();
      }
      change(*kernel, DeleteLink{link.index});
    }
  });
}

struct Bonded {
  Kernel& kernel;
  unsigned bond, member;

  Bonded(Kernel& kernel, BondMode mode, bool up, bool filled) : kernel(kernel) {
    member = addLink(kernel, "eth0", Dummy{});
    BondOptions options;
    options[O::kMode] = uint32_t(mode);
    bond = addLink(kernel, "bond1", Bond{options});
    if (filled) setMaster(kernel, member, bond);
    if (up) setUp(kernel, bond);
  }
  ~Bonded() noexcept(false) {
    change(kernel, DeleteLink{bond});
    change(kernel, DeleteLink{member});
  }
  BondOptions options() {
    auto link = KJ_ASSERT_NONNULL(findLink(kernel, "bond1"));
    auto result = link.bond.value_or(BondOptions{});
    // Indices differ between the two kernels.
    auto& primary = result[O::kPrimary];
    if (primary && *primary != 0) primary = 1;
    result[O::kActiveMember].reset();
    return result;
  }
};

// Catches: conditions (down, empty, mode) and errors of the table and of the model that differ from
// Linux: every option in every mode on a bond in every state.
TEST(KernelLinks, TheModelRefusesWhatLinuxRefuses) {
  unsigned compared = 0, refused = 0;
  Namespace ns;
  ns.run([&] {
    auto real = openKernel();
    for (unsigned state = 0; state < 4; ++state) {
      for (unsigned mode = 0; mode < kBondModes; ++mode) {
        bool up = (state & 1) != 0, filled = (state & 2) != 0;
        TestKernel model;
        for (auto& rule : bondRules()) {
          if (rule.option == O::kActiveMember) continue;
          Bonded a(*real, BondMode(mode), up, filled), b(model, BondMode(mode), up, filled);
          for (uint32_t value : {other(rule), rule.standard}) {
            BondOptions forA, forB;
            bool primary = rule.option == O::kPrimary && value != 0;
            forA[rule.option] = primary ? a.member : value;
            forB[rule.option] = primary ? b.member : value;
            auto at = kj::str(rule.name, " ", value, " in ", nameOf(BondMode(mode)),
                              up ? ", up" : ", down", filled ? ", filled" : ", empty");
            kj::String words;
            int code = codeOf(*real, SetBond{a.bond, forA}, &words);
            EXPECT_EQ(code, codeOf(model, SetBond{b.bond, forB}))
                << at.cStr() << ": " << words.cStr();
            auto is = a.options(), modelled = b.options();
            for (auto& known : bondRules()) {
              if (!is[known.option]) continue;
              EXPECT_TRUE(is[known.option] == modelled[known.option])
                  << at.cStr() << ": " << known.name.cStr() << " is "
                  << is[known.option].value_or(99999) << ", modelled "
                  << modelled[known.option].value_or(99999);
            }
            ++compared;
            refused += code != 0;
          }
        }
      }
    }
  });
  printf("  %u changes of bonds compared with the model, %u of them refused by both\n", compared,
         refused);
}

// Catches: a difference from the planner's other assumptions: which links go up, down and away
// together.
TEST(KernelLinks, TheModelMovesLinksAsLinuxDoes) {
  struct Step {
    kj::StringPtr what;
    kj::Function<Change(Kernel&)> make;
  };
  auto index = [](Kernel& k, kj::StringPtr name) { return indexOf(k, name); };
  auto set = [&](kj::StringPtr name, kj::Maybe<bool> up, kj::Maybe<unsigned> mtu) {
    return
        [=](Kernel& k) -> Change { return SetLink{.index = index(k, name), .up = up, .mtu = mtu}; };
  };
  auto join = [&](kj::StringPtr name, kj::StringPtr master) {
    return [=](Kernel& k) -> Change {
      unsigned to = master.size() == 0 ? 0 : index(k, master);
      return SetLink{.index = index(k, name), .master = to};
    };
  };
  auto add = [&](kj::StringPtr name, auto kind) {
    return [=](Kernel&) -> Change { return AddLink{kj::str(name), kind}; };
  };
  auto vlan = [&](kj::StringPtr parent, uint16_t id) {
    return [=](Kernel& k) -> Change {
      return AddLink{kj::str(parent, ".", id), Vlan{index(k, parent), id}};
    };
  };
  auto remove = [&](kj::StringPtr name) {
    return [=](Kernel& k) -> Change { return DeleteLink{index(k, name)}; };
  };
  kj::Vector<Step> steps;
  auto step = [&](kj::StringPtr what, auto make) { steps.add(Step{what, kj::mv(make)}); };
  step("add d0", add("d0", Dummy{}));
  step("add d1", add("d1", Dummy{}));
  step("add bond", add("b0", Bond{}));
  step("add bridge", add("br0", Bridge{}));
  step("again", add("br0", Bridge{}));
  step("vlan", vlan("b0", 100));
  step("same vlan", vlan("b0", 100));
  step("vlan up before its parent", set("b0.100", true, nullptr));
  step("vlan larger than its parent", set("b0.100", nullptr, 9000u));
  step("d0 up", set("d0", true, nullptr));
  step("enter while up", join("d0", "b0"));
  step("d0 down", set("d0", false, nullptr));
  step("bond mtu", set("b0", nullptr, 1400u));
  step("enter", join("d0", "b0"));
  step("bond up", set("b0", true, nullptr));
  step("bond mtu again", set("b0", nullptr, 1600u));
  step("vlan mtu", set("b0.100", nullptr, 1600u));
  step("bond mtu down", set("b0", nullptr, 1450u));
  step("into the bridge", join("d0", "br0"));
  step("d1 into the bridge", join("d1", "br0"));
  step("d1 mtu", set("d1", nullptr, 1300u));
  step("d1 up", set("d1", true, nullptr));
  step("from the bridge into the bond while up", join("d1", "b0"));
  step("out", join("d1", ""));
  step("d1 down", set("d1", false, nullptr));
  step("into the bond", join("d1", "b0"));
  step("bond down", set("b0", false, nullptr));
  step("bond up again", set("b0", true, nullptr));
  step("member down by hand", set("d1", false, nullptr));
  step("dummy as master", join("br0", "d0"));
  step("bridge in itself", join("br0", "br0"));
  step("delete the bond", remove("b0"));
  step("delete the bridge", remove("br0"));

  Namespace ns;
  ns.run([&] {
    auto real = openKernel();
    TestKernel model;
    auto text = [](Kernel& k) {
      kj::Vector<kj::String> lines;
      auto links = k.links();
      for (auto& l : links) {
        kj::StringPtr master = "-";
        for (auto& m : links) {
          if (m.index == l.master) master = m.name;
        }
        if (l.loopback()) continue;
        lines.add(kj::str(l.name, " ", l.kind, l.up() ? " up" : " down", " mtu ", l.mtu, " in ",
                          master, " ", l.memberKind));
      }
      return kj::strArray(lines, "\n");
    };
    for (auto& s : steps) {
      kj::String words;
      int code = codeOf(*real, s.make(*real), &words);
      EXPECT_EQ(code, codeOf(model, s.make(model))) << s.what.cStr() << ": " << words.cStr();
      EXPECT_STREQ(text(*real).cStr(), text(model).cStr()) << s.what.cStr();
    }
  });
}

// Catches: a bridge that follows its ports in the model only, or in Linux only.
TEST(KernelLinks, TheModelGivesABridgeTheAddressThatLinuxDoes) {
  struct Row {
    kj::StringPtr what, link;
    kj::StringPtr master;    // to join; empty: to leave
    unsigned address = 0;    // or to get this one
    kj::StringPtr result{};  // the bridge's
  };
  constexpr unsigned kNone = 256;  // no address of a machine
  Row rows[] = {
      {"the first port", "d5", "br0", 0, "02:00:00:00:00:05"},
      {"a higher one", "d7", "br0", 0, "02:00:00:00:00:05"},
      {"a lower one", "d3", "br0", 0, "02:00:00:00:00:03"},
      {"a port that gets another", "d7", "", 2, "02:00:00:00:00:02"},
      {"the lowest leaves", "d7", "", 0, "02:00:00:00:00:03"},
      {"all leave", "d3", "", 0, "02:00:00:00:00:05"},
      {"the last one", "d5", "", 0, "00:00:00:00:00:00"},
      {"none that is one", "br0", "", kNone, "00:00:00:00:00:00"},
      {"set", "br0", "", 6, "02:00:00:00:00:06"},
      {"a lower one, then", "d3", "br0", 0, "02:00:00:00:00:06"},
      {"which leaves", "d3", "", 0, "02:00:00:00:00:06"},
  };
  auto give = [](unsigned index, unsigned last) {
    kj::byte first = last == kNone ? 3 : 2;
    return SetLink{.index = index, .hardwareAddress = {{first, 0, 0, 0, 0, kj::byte(last)}}};
  };
  Namespace ns;
  ns.run([&] {
    auto real = openKernel();
    TestKernel model;
    for (Kernel* kernel : {real.get(), static_cast<Kernel*>(&model)}) {
      addLink(*kernel, "br0", Bridge{});
      for (unsigned last : {3, 5, 7}) {
        change(*kernel, give(addLink(*kernel, kj::str("d", last), Dummy{}), last));
      }
      for (auto& row : rows) {
        unsigned link = indexOf(*kernel, row.link);
        unsigned master = row.master.size() > 0 ? indexOf(*kernel, row.master) : 0;
        int code = row.address != 0 ? codeOf(*kernel, give(link, row.address))
                                    : codeOf(*kernel, SetLink{.index = link, .master = master});
        EXPECT_EQ(code, row.address == kNone ? EADDRNOTAVAIL : 0) << row.what.cStr();
        auto bridge = KJ_ASSERT_NONNULL(findLink(*kernel, "br0"));
        EXPECT_EQ(hardwareText(bridge.hardwareAddress), row.result)
            << row.what.cStr() << (kernel == &model ? ", model" : ", Linux");
      }
    }
  });
}

// Catches: a VLAN of another protocol, and an attribute of the kernel that is misread.
TEST(KernelLinks, VlansBridgesAndGroupsAreReadAsTheyWereMade) {
  Namespace ns;
  ns.run([] {
    auto kernel = openKernel();
    unsigned parent = addLink(*kernel, "d0", Dummy{});
    change(
        *kernel,
        AddLink{
            .name = kj::str("d0.7"), .kind = Vlan{parent, 7, 0x88a8}, .group = 116, .mtu = 1300});
    change(*kernel,
           AddLink{.name = kj::str("br0"), .kind = Bridge{{.stp = true, .vlanFiltering = true}}});
    auto vlan = KJ_ASSERT_NONNULL(findLink(*kernel, "d0.7"));
    EXPECT_TRUE((vlan.vlan == VlanTag{7, 0x88a8}));
    EXPECT_EQ(vlan.parent, parent);
    EXPECT_EQ(vlan.group, 116u);
    EXPECT_EQ(vlan.mtu, 1300u);
    auto bridge = KJ_ASSERT_NONNULL(findLink(*kernel, "br0"));
    EXPECT_TRUE((bridge.bridge == BridgeOptions{true, true}));
    change(*kernel, SetBridge{bridge.index, {.stp = false, .vlanFiltering = {}}});
    EXPECT_TRUE((KJ_ASSERT_NONNULL(findLink(*kernel, "br0")).bridge == BridgeOptions{false, true}));
  });
}

}  // namespace
}  // namespace talos::netlink
