#include "machined/system/service-environment.h"

#include <capnp/message.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace talos::machined {
namespace {

using testing::ElementsAre;

std::vector<std::string> texts(kj::ArrayPtr<const kj::String> list) {
  std::vector<std::string> result;
  for (auto& text : list) result.push_back(text.cStr());
  return result;
}

// Catches: apid that connects to machines of its cluster through a proxy, in whichever case it is
// written; other variables that apid lacks; other services without a proxy.
TEST(ServiceEnvironment, ApidHasNoProxy) {
  capnp::MallocMessageBuilder message;
  auto env = message.initRoot<config::Machine>().initEnv(5);
  unsigned i = 0;
  for (auto key : {"http_proxy"_kj, "HTTPS_PROXY"_kj, "No_Proxy"_kj, "GODEBUG"_kj, "BAD"_kj}) {
    env[i].setKey(key);
    env[i++].setValue("v"_kj);
  }
  env[4].setValue("zero\0byte"_kj);
  auto machine = message.getRoot<config::Machine>().asReader();
  EXPECT_THAT(texts(serviceEnvironment("apid", machine)), ElementsAre("GODEBUG=v"));
  EXPECT_THAT(texts(serviceEnvironment("networkd", machine)),
              ElementsAre("http_proxy=v", "HTTPS_PROXY=v", "No_Proxy=v", "GODEBUG=v"));
}

// Catches: a user who replaces the variable of a service's socket.
TEST(ServiceEnvironment, SystemVariableHasPrecedenceOverAUsersOne) {
  auto own = kj::arr(kj::str("TALOS_STORE=/s"), kj::str("A=1"));
  auto users = kj::arr(kj::str("A=2"), kj::str("AB=3"), kj::str("TALOS_STORE=/x"));
  EXPECT_THAT(texts(joinEnvironment(own, users)), ElementsAre("TALOS_STORE=/s", "A=1", "AB=3"));
}

// Catches: a service that is restarted although it has all variables, or although the node sets the
// one that differs; a service that is not restarted although a value differs.
TEST(ServiceEnvironment, IsFoundInAProcess) {
  auto has = [](kj::StringPtr environ, std::initializer_list<kj::StringPtr> wanted) {
    auto list = KJ_MAP(w, wanted) {
      return kj::str(w);
    };
    return hasEnvironment("cri", environ, list);
  };
  EXPECT_TRUE(has("A=1\0B=2\0"_kj, {"B=2", "A=1"}));
  EXPECT_TRUE(has("A=1\0B=2"_kj, {"B=2"}));
  EXPECT_FALSE(has("A=1\0B=22\0"_kj, {"B=2"}));
  EXPECT_FALSE(has("AB=2\0"_kj, {"B=2"}));
  EXPECT_FALSE(has(""_kj, {"B=2"}));
  EXPECT_TRUE(has(""_kj, {}));
  EXPECT_TRUE(has("TALOS_STORE=/s\0"_kj, {"TALOS_STORE=/x"})) << "it would never be";
  EXPECT_TRUE(has("PATH=/usr/bin\0"_kj, {"PATH=/opt/bin"})) << "the node's PATH of cri";
  EXPECT_FALSE(has("TALOS_X=1\0"_kj, {"TALOS_X=2"})) << "the node has no such variable";
  auto path = kj::arr(kj::str("PATH=/opt/bin"));
  EXPECT_FALSE(hasEnvironment("apid", "PATH=/usr/bin\0"_kj, path)) << "the user's PATH of apid";
}

}  // namespace
}  // namespace talos::machined
