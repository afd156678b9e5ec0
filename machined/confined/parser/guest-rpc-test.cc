#include "machined/confined/parser/guest-rpc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/testing/test-zip.h"
#include "machined/confined/parser/guest-info.h"
#include "machined/confined/parser/test-hypervisor.h"

namespace talos::parse {
namespace {

using testing::HasSubstr;

class GuestRpcTest : public testing::Test {
 protected:
  TestHypervisor hypervisor;

  ~GuestRpcTest() noexcept override {}

  template <typename Read>
  std::string result(Read read) {
    std::string text;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                   GuestRpc rpc(hypervisor.port());
                   text = read(rpc);
                 })) {
      text = kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e)).cStr();
    }
    EXPECT_EQ(hypervisor.open, 0u) << "a channel was left open";
    return text;
  }
  std::string variable(kj::StringPtr name) {
    return result([&](GuestRpc& rpc) -> std::string {
      KJ_IF_MAYBE (value, rpc.variable(name)) return {value->begin(), value->size()};
      return "none";
    });
  }
  // Makes the hypervisor refuse the `count`th message of this type, and each after it while
  // `repeated`.
  void refuse(uint32_t wanted, unsigned count, uint32_t status, bool repeated = false) {
    hypervisor.fault = [=, left = count](uint32_t type, PortRegisters& r) mutable {
      if (type != wanted || left == 0 || (--left > 0)) return false;
      if (repeated) left = 1;
      TestHypervisor::answerWith(r, status);
      return true;
    };
  }
  void base64(kj::StringPtr name, std::string text) {
    hypervisor.variables[name.cStr()] =
        kj::encodeBase64(kj::arrayPtr(text.data(), text.size()).asBytes(), true).cStr();
  }
  std::string config() {
    return result([](GuestRpc& rpc) -> std::string {
      auto text = guestConfig(rpc);
      return {text.begin(), text.size()};
    });
  }
};

// Catches: the last bytes of a request or a reply cut or padded; a second variable that gets the
// reply of the first; a variable that does not exist taken for an empty one.
TEST_F(GuestRpcTest, Variables) {
  for (size_t size = 0; size <= 9; ++size) {
    std::string name = "guestinfo." + std::string(size, 'k'), value(size, 'v');
    hypervisor.variables[name] = value;
    EXPECT_EQ(variable(name.c_str()), value);
  }
  EXPECT_EQ(variable("guestinfo.other"), "none");
  auto large = std::string(100'000, 'x') + "y";
  hypervisor.variables["a"] = large;
  hypervisor.variables["b"] = "2";
  EXPECT_EQ(result([](GuestRpc& rpc) -> std::string {
              auto a = KJ_ASSERT_NONNULL(rpc.variable("a"));
              auto b = KJ_ASSERT_NONNULL(rpc.variable("b"));
              return kj::str(a.size(), " ", a.back(), " ", b).cStr();
            }),
            "100001 y 2");
}

// Catches: half a request that the hypervisor takes for a whole one after a checkpoint, half a
// reply joined to its beginning; a hypervisor that interrupts for ever.
TEST_F(GuestRpcTest, Checkpoints) {
  hypervisor.variables["guestinfo.userdata"] = "0123456789";
  constexpr uint32_t kStep[] = {2, 4, 5};  // data sent, data received, the end
  for (auto type : kStep) {
    for (unsigned count : {1u, 2u}) {
      if (type == 5 && count == 2) continue;
      refuse(type, count, 0x10);
      EXPECT_EQ(variable("guestinfo.userdata"), "0123456789") << type << " " << count;
    }
    refuse(type, 1, 0x10, true);
    EXPECT_EQ(variable("guestinfo.userdata"),
              "Unavailable: the hypervisor interrupted a request 9 times for a checkpoint");
  }
  EXPECT_LT(hypervisor.calls, 500u);
}

// Catches: a refusal of the hypervisor at any step that is taken for a value, or for a missing
// value.
TEST_F(GuestRpcTest, Refusals) {
  hypervisor.variables["k"] = "0123456789";
  const std::pair<uint32_t, const char*> kSteps[] = {
      {0, "to open a channel"},   {1, "a request"},
      {2, "a part of a request"}, {3, "to say how long its reply is"},
      {4, "a part of its reply"}, {5, "the acknowledgement of its reply"}};
  for (auto& [type, step] : kSteps) {
    refuse(type, 1, 0);
    EXPECT_EQ(variable("k"), std::string("Unavailable: the hypervisor refused ") + step);
  }
  refuse(6, 1, 1);  // the close is refused
  GuestRpc(hypervisor.port());
  EXPECT_EQ(hypervisor.open, 1u);
}

// Catches: a cookie that is not sent with each message, or another's.
TEST_F(GuestRpcTest, Cookies) {
  hypervisor.variables["k"] = "v";
  hypervisor.fault = [](uint32_t type, PortRegisters& r) {
    if (type != 6) r.esi ^= 1;
    return false;
  };
  EXPECT_EQ(variable("k"), "Unavailable: the hypervisor refused a request");
}

// Catches: memory allocated for a reply that the hypervisor only announces; a reply that ends
// early, is missing, or has another form; a port that does not answer.
TEST_F(GuestRpcTest, WrongReplies) {
  hypervisor.variables["k"] = "0123456789";
  auto announce = [&](uint32_t size, uint32_t status, uint32_t kind) {
    hypervisor.fault = [=](uint32_t type, PortRegisters& r) {
      if (type != 3) return false;
      r.ebx = size;
      r.edx = kind << 16;
      TestHypervisor::answerWith(r, status);
      return true;
    };
    return variable("k");
  };
  EXPECT_EQ(announce(0xffff'ffff, 3, 1),
            "Unavailable: the reply of the hypervisor is larger than 8 MiB");
  EXPECT_EQ(announce(0, 1, 1), "Unavailable: the hypervisor has no reply to a request");
  EXPECT_EQ(announce(4, 3, 2), "Unavailable: the hypervisor has no reply to a request");
  EXPECT_EQ(announce(13, 3, 1), "Unavailable: the hypervisor refused a part of its reply");
  auto other = "Unavailable: the reply of the hypervisor begins with neither \"1 \" nor \"0 \"";
  EXPECT_EQ(announce(0, 3, 1), other);
  for (auto text : {"2 01", "10", "x"}) {
    hypervisor.fault = [&](uint32_t type, PortRegisters& r) {
      if (type == 3) {
        r.ebx = static_cast<uint32_t>(strlen(text));
        r.edx = 1u << 16;
        TestHypervisor::answerWith(r, 3);
      } else if (type == 4) {
        memcpy(&r.ebx, text, kj::min(sizeof r.ebx, strlen(text)));
        r.edx = 2u << 16;
        TestHypervisor::answerWith(r, 1);
      }
      return type == 3 || type == 4;
    };
    EXPECT_EQ(variable("k"), other) << text;
  }
  hypervisor.restricted = true;
  EXPECT_THAT(variable("k"), HasSubstr("Unavailable: the hypervisor does not answer on its port"));
}

// Catches: sources in another order; an empty source, or one for another system, that hides the
// next; a value that is not base64 and is skipped; a packed config.
TEST_F(GuestRpcTest, ConfigInOrder) {
  EXPECT_EQ(config(), "");
  hypervisor.variables["guestinfo.ovfenv"] =
      "<Environment xmlns:oe=\"x\"><PropertySection><Property oe:key=\"userdata\" "
      "oe:value=\"NDo=\"/></PropertySection></Environment>";
  EXPECT_EQ(config(), "4:");
  auto& environment = hypervisor.variables["guestinfo.ovfenv"];
  environment.insert(environment.find("<Property "),
                     "<Property oe:key=\"talos.config\" oe:value=\"Mzo=\"/>");
  EXPECT_EQ(config(), "3:");
  base64("guestinfo.userdata", "#cloud-config\n");
  EXPECT_EQ(config(), "3:");
  hypervisor.variables["guestinfo.userdata"] = "#cloud-config\n";
  EXPECT_EQ(config(), "3:") << "cloud-init takes plain text";
  base64("guestinfo.userdata", zip("2:"));
  EXPECT_EQ(config(), "2:");
  hypervisor.variables["guestinfo.talos.config"] = "";
  EXPECT_EQ(config(), "2:");
  base64("guestinfo.talos.config", std::string(200, '1') + ":");
  EXPECT_EQ(config(), std::string(200, '1') + ":") << "with line breaks";
  hypervisor.variables["guestinfo.talos.config"] = "machine: {}";
  EXPECT_EQ(
      config(),
      "InvalidArgument: guestinfo.talos.config: the user data is not base64, as it is on this "
      "platform");
  hypervisor.variables.clear();
  hypervisor.variables["guestinfo.ovfenv"] = "<Environment>";
  EXPECT_EQ(config(), "InvalidArgument: guestinfo.ovfenv:1:14: is not valid XML: no element found");
}

// Catches: metadata that is read from only one of its two places.
TEST_F(GuestRpcTest, Metadata) {
  auto metadata = [this]() {
    return result([](GuestRpc& rpc) -> std::string {
      auto text = guestMetadata(rpc);
      return {text.begin(), text.size()};
    });
  };
  EXPECT_EQ(metadata(), "");
  hypervisor.variables["guestinfo.ovfenv"] = "<E><Property key='metadata' value='Mjo='/></E>";
  EXPECT_EQ(metadata(), "2:");
  base64("guestinfo.metadata", "1:");
  EXPECT_EQ(metadata(), "1:");
}

// Catches: a config that every process of the machine can read after the node has it; user data of
// another system, metadata or other properties that are lost with it; a hypervisor that does not
// make a change and is believed; a second clearing that writes again.
TEST_F(GuestRpcTest, ClearsTheConfig) {
  auto clear = [this]() {
    return result([](GuestRpc& rpc) -> std::string {
      return kj::strArray(clearGuestConfig(rpc), " ").cStr();
    });
  };
  EXPECT_EQ(clear(), "");
  base64("guestinfo.talos.config", "machine: {}");
  base64("guestinfo.userdata", "machine: {}");
  base64("guestinfo.metadata", "instance-id: a");
  hypervisor.variables["guestinfo.ovfenv"] =
      "<E><Property key='talos.config' value='Mzo='/><Property key='userdata' value=''/>"
      "<Property key='a&lt;&quot;&amp;' value='x&#10;&apos;y'/>"
      "<Property key='metadata' value='Mjo='/></E>";
  EXPECT_EQ(clear(), "guestinfo.talos.config guestinfo.userdata guestinfo.ovfenv");
  EXPECT_EQ(config(), "");
  EXPECT_EQ(hypervisor.variables["guestinfo.ovfenv"],
            "<Environment><PropertySection><Property key=\"a&lt;&quot;&amp;\" "
            "value=\"x&#10;'y\"/><Property key=\"metadata\" value=\"Mjo=\"/>"
            "</PropertySection></Environment>");
  EXPECT_EQ(hypervisor.variables["guestinfo.metadata"], "aW5zdGFuY2UtaWQ6IGE=\n");
  auto left = hypervisor.variables;
  EXPECT_EQ(clear(), "");
  EXPECT_EQ(hypervisor.variables, left);

  base64("guestinfo.userdata", "#cloud-config\n");
  EXPECT_EQ(clear(), "");
  hypervisor.variables["guestinfo.talos.config"] = "machine: {}";
  EXPECT_EQ(clear(), "guestinfo.talos.config") << "what is not base64 may be a config";

  hypervisor.variables["guestinfo.userdata"] = "Mjo=";
  hypervisor.readOnly = true;
  EXPECT_EQ(clear(), "Unavailable: the hypervisor does not change guestinfo.userdata: Read only");
  hypervisor.readOnly = false;
  hypervisor.forgetful = true;
  EXPECT_EQ(clear(),
            "Unavailable: the hypervisor says that it changed guestinfo.userdata, and gives "
            "another value");
}

// Catches: the instruction executed where it ends the process; the name of another hypervisor
// accepted, or one in the byte order of other processors.
TEST(VmwarePort, OnVmwareAlone) {
  auto name = [](bool guest, kj::StringPtr vendor) {
    return std::string(hypervisorName([&](PortRegisters& r) {
                         if (r.eax == 1) {
                           r.ecx = guest ? 1u << 31 : 0;
                         } else if (r.eax == 0x4000'0000) {
                           memcpy(&r.ebx, vendor.begin(), 4);
                           memcpy(&r.ecx, vendor.begin() + 4, 4);
                           memcpy(&r.edx, vendor.begin() + 8, 4);
                         }
                       }).cStr());
  };
  EXPECT_EQ(name(true, "VMwareVMware"), "VMwareVMware");
  EXPECT_EQ(name(false, "VMwareVMware"), "");
  EXPECT_EQ(name(true, "KVMKVMKVM\0\0\0"_kj), "KVMKVMKVM");
  EXPECT_EQ(name(true, "a\x1b[31mbcdefgh"), "a?[31mbcdefg");
}

}  // namespace
}  // namespace talos::parse
