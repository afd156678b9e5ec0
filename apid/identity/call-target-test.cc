#include "apid/identity/call-target.h"

#include <gtest/gtest.h>

#include "common/base/error.h"

namespace talos::apid {
namespace {

Self self() {
  Self self;
  self.addresses.add(Ip::require("10.5.0.2"));
  self.addresses.add(Ip::require("fd00::2"));
  self.names.add(kj::str("node1"));
  self.names.add(kj::str("node1.example.org"));
  return self;
}

// Catches: a call for this machine that goes out over the network, perhaps for ever in a circle.
TEST(Target, ThisNode) {
  for (auto text : {"", "10.5.0.2", "::ffff:10.5.0.2", "fd00::2", "FD00:0:0::2", "127.0.0.1",
                    "127.9.9.9", "::1", "localhost", "node1", "NODE1", "node1.example.org"}) {
    EXPECT_TRUE(resolveTarget(text, self()).is<ThisNode>()) << text;
  }
}

// Catches: another machine answered by this one.
TEST(Target, OtherNode) {
  for (auto text : {"10.5.0.3", "fd00::3", "169.254.1.1"}) {
    auto target = resolveTarget(text, self());
    ASSERT_TRUE(target.is<Ip>()) << text;
    EXPECT_EQ(target.get<Ip>().toString(), kj::StringPtr(text));
  }
}

// Catches: a member that is known by its name, and called by its address only; a name whose node
// claims the address of another one, so that a reset reaches that one.
TEST(Target, AMembersName) {
  auto known = self();
  auto add = [&](kj::StringPtr name, std::initializer_list<kj::StringPtr> addresses) {
    KnownMember member{.name = kj::str(name), .addresses = {}};
    for (auto address : addresses) member.addresses.add(Ip::require(address));
    known.members.add(kj::mv(member));
  };
  add("node1", {"10.5.0.2"});
  add("worker-1", {"10.5.0.3", "fd00::3"});
  add("worker-2", {"10.5.0.4"});
  add("worker-3", {"10.5.0.4"});
  add("worker-4", {"10.5.0.2"});
  add("worker-5", {});
  EXPECT_TRUE(resolveTarget("node1", known).is<ThisNode>());
  auto target = resolveTarget("Worker-1", known);
  ASSERT_TRUE(target.is<Ip>());
  EXPECT_EQ(target.get<Ip>().toString(), "10.5.0.3"_kj);
  auto refused = [&](kj::StringPtr name) {
    auto failure = kj::runCatchingExceptions([&] { resolveTarget(name, known); });
    return std::string(messageOf(KJ_ASSERT_NONNULL(failure, name)).cStr());
  };
  EXPECT_EQ(refused("worker-2"),
            "\"worker-2\" has the address 10.5.0.4, which \"worker-3\" has as well; use the IP "
            "address of the node that you mean");
  EXPECT_EQ(
      refused("worker-4"),
      "\"worker-4\" has the address 10.5.0.2, which this node has as well; use the IP address "
      "of the node that you mean");
  EXPECT_NE(refused("worker-5").find("nor of a member of its cluster"), std::string::npos);
}

// Catches: a mistake that is dialled, or an error that does not say what would be right.
TEST(Target, Mistakes) {
  struct Case {
    kj::String text;
    const char* part;
  };
  auto longName = kj::str(kj::repeat('a', 300));
  for (auto& c :
       {Case{kj::str("10.5.0.3:50000"), "has a port; leave it out"},
        Case{kj::str("node1:50000"), "has a port; leave it out"},
        Case{kj::str("[fd00::3]:50000"), "has a port; leave it out"},
        Case{kj::str("node2"), "use the IP address"},
        Case{kj::str("0.0.0.0"), "not the address of a node"},
        Case{kj::str("ff02::1"), "not the address"}, Case{kj::str("10.5.0"), "use the IP address"},
        Case{kj::mv(longName), "at most 253"}}) {
    auto failure = kj::runCatchingExceptions([&] { resolveTarget(c.text, self()); });
    auto& e = KJ_ASSERT_NONNULL(failure, c.text);
    EXPECT_EQ(kindOf(e), ErrorKind::kInvalidArgument) << c.text.cStr();
    EXPECT_NE(strstr(e.getDescription().cStr(), c.part), nullptr) << e.getDescription().cStr();
  }
}

}  // namespace
}  // namespace talos::apid
