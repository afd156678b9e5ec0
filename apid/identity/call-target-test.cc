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

// Catches: a call for this machine that goes out over the network, perhaps in an endless loop.
TEST(Target, ThisNode) {
  for (auto text : {"", "10.5.0.2", "::ffff:10.5.0.2", "fd00::2", "FD00:0:0::2", "127.0.0.1",
                    "127.9.9.9", "::1", "localhost", "node1", "NODE1", "node1.example.org"}) {
    EXPECT_TRUE(resolveTarget(text, self()).is<ThisNode>()) << text;
  }
}

// Catches: a call for another machine that this one answers.
TEST(Target, OtherNode) {
  for (auto text : {"10.5.0.3", "fd00::3", "169.254.1.1"}) {
    auto target = resolveTarget(text, self());
    ASSERT_TRUE(target.is<OtherNode>()) << text;
    EXPECT_EQ(target.get<OtherNode>().address.toString(), kj::StringPtr(text));
    EXPECT_EQ(target.get<OtherNode>().name, ""_kj) << "the certificate needs the address alone";
  }
}

void add(Self& known, kj::StringPtr name, std::initializer_list<kj::StringPtr> addresses,
         bool controlPlane = false) {
  KnownMember member{.name = kj::str(name), .controlPlane = controlPlane, .addresses = {}};
  for (auto address : addresses) member.addresses.add(Ip::require(address));
  known.members.add(kj::mv(member));
}
// Returns "10.5.0.3 as worker-1", or the error.
std::string resolved(kj::StringPtr name, const Self& known) {
  std::string text;
  auto failure = kj::runCatchingExceptions([&] {
    auto target = resolveTarget(name, known);
    auto& node = target.get<OtherNode>();
    text = kj::str(node.address.toString(), " as ", node.controlPlane ? "control plane " : "",
                   node.name)
               .cStr();
  });
  KJ_IF_MAYBE (e, failure) text = kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e)).cStr();
  return text;
}

// Catches: a known member's name that is called by its address only; a name whose node claims the
// address of another node, so that a reset reaches the other node.
TEST(Target, AMembersName) {
  auto known = self();
  add(known, "node1", {"10.5.0.2"});
  add(known, "worker-1", {"10.5.0.3", "fd00::3"});
  add(known, "worker-2", {"10.5.0.4"});
  add(known, "worker-3", {"10.5.0.4"});
  add(known, "worker-4", {"10.5.0.2"});
  add(known, "worker-5", {});
  EXPECT_TRUE(resolveTarget("node1", known).is<ThisNode>());
  EXPECT_EQ(resolved("Worker-1", known), "10.5.0.3 as worker-1");
  auto refused = [&](kj::StringPtr name) {
    auto text = resolved(name, known);
    auto colon = text.find(": ");
    return colon == std::string::npos ? text : text.substr(colon + 2);
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

// Catches: a control plane that is unreachable by its name because a worker reports its address; a
// worker's name that leads to the control plane; two control planes with one address, one of which
// is called.
TEST(Target, AControlPlanesAddressIsItsOwn) {
  auto known = self();
  add(known, "worker-1", {"10.5.0.3"});
  add(known, "cp-2", {"10.5.0.3"}, true);
  EXPECT_EQ(resolved("cp-2", known), "10.5.0.3 as control plane cp-2");
  EXPECT_EQ(resolved("worker-1", known),
            "FailedPrecondition: \"worker-1\" has the address 10.5.0.3, which \"cp-2\" has as "
            "well; use the IP address of the node that you mean");
  add(known, "cp-3", {"10.5.0.9", "10.5.0.3"}, true);
  EXPECT_EQ(resolved("cp-2", known),
            "FailedPrecondition: \"cp-2\" has the address 10.5.0.3, which \"cp-3\" has as well; "
            "use the IP address of the node that you mean");
}

// Catches: a node with a domain in its name that is not found by its host name; a worker that takes
// a control plane's name with another domain, or without one; a guess between two.
TEST(Target, TheFirstLabelOfAName) {
  auto known = self();
  add(known, "cp-2.example.org", {"10.5.0.3"}, true);
  add(known, "worker-1.a.example", {"10.5.0.4"});
  EXPECT_EQ(resolved("cp-2", known), "10.5.0.3 as control plane cp-2.example.org");
  EXPECT_EQ(resolved("CP-2.example.org", known), "10.5.0.3 as control plane cp-2.example.org");
  EXPECT_EQ(resolved("worker-1", known), "10.5.0.4 as worker-1.a.example");
  for (auto name : {"cp-2.example", "cp", "cp-2.", "worker-1.a"}) {
    EXPECT_NE(resolved(name, known).find("nor of a member of its cluster"), std::string::npos)
        << name;
  }
  add(known, "worker-1.b.example", {"10.5.0.5"});
  EXPECT_EQ(resolved("worker-1", known),
            "FailedPrecondition: \"worker-1\" can be the node \"worker-1.a.example\" or "
            "\"worker-1.b.example\"; use the IP address of the node that you mean");
  add(known, "cp-2", {"10.5.0.6"});
  EXPECT_EQ(
      resolved("cp-2", known),
      "FailedPrecondition: \"cp-2\" can be the node \"cp-2\" or \"cp-2.example.org\"; use the "
      "IP address of the node that you mean");
  EXPECT_EQ(resolved("cp-2.example.org", known), "10.5.0.3 as control plane cp-2.example.org");
  add(known, "cp-3", {"10.5.0.7"}, true);
  add(known, "cp-3.evil.example", {"10.5.0.8"});
  EXPECT_EQ(resolved("cp-3", known), "10.5.0.7 as control plane cp-3");
}

ShownCertificate shown(std::initializer_list<kj::StringPtr> names, bool controlPlane = false) {
  ShownCertificate certificate{
      .verificationError = nullptr, .controlPlane = controlPlane, .names = {}};
  for (auto name : names) certificate.names.add(kj::str(name));
  return certificate;
}

// Catches: a call by name that is sent to any node at the address; a worker that passes for a
// control plane; a node without a name in its certificate, whose error does not say how to call it.
TEST(Target, TheCertificateProvesTheName) {
  auto error = [](kj::StringPtr name, bool controlPlane, const ShownCertificate& certificate) {
    return identityError(OtherNode(Ip::require("10.5.0.3"), kj::str(name), controlPlane),
                         certificate)
        .orDefault(kj::str("none"));
  };
  EXPECT_EQ(error("", false, shown({})), "none"_kj);
  EXPECT_EQ(error("w1", false, shown({"w1.example.org", "w1"})), "none"_kj);
  EXPECT_EQ(error("cp-2", true, shown({"cp-2"}, true)), "none"_kj);
  EXPECT_EQ(
      error("w1", false, shown({"w1.example.org", "w10"})),
      "the certificate of 10.5.0.3 lacks the name \"w1\", so no call for this node is sent to "
      "it; use -n 10.5.0.3 if you mean the node at this address, and see `talosctl -n "
      "10.5.0.3 get joinstatuses` for the names that trustd refused"_kj);
  EXPECT_NE(error("cp-2", true, shown({"cp-3"}, true)), "none"_kj);
  EXPECT_EQ(error("cp-2", true, shown({"cp-2"})),
            "the certificate of 10.5.0.3 is a worker's, so no call for the control-plane node "
            "\"cp-2\" is sent to it; use -n 10.5.0.3 if you mean the node at this address"_kj);
  ShownCertificate unverified;
  unverified.verificationError = kj::str("self-signed certificate");
  EXPECT_EQ(error("w1", false, unverified), "none"_kj) << "its status can be queried";
  EXPECT_EQ(
      error("cp-2", true, unverified),
      "the identity of 10.5.0.3 is not verified (self-signed certificate), so no call for "
      "the control-plane node \"cp-2\" is sent to it; use -n 10.5.0.3 to query its status"_kj);
}

// Catches: a mistake that is dialled, or an error that does not name the valid forms.
TEST(Target, MistakenTargetsAreRefusedWithTheValidForms) {
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
