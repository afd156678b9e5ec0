// Tests calls of any method by name, on servers of this process.
#include "talosctl/debug/dynamic-call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>

#include <functional>

#include "common/base/error.h"
#include "rpc/local.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::talosctl {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class CalledLogs final : public rpc::Logs::Server {
  kj::Promise<void> read(ReadContext context) override {
    auto line = context.getParams().getSink().writeRequest();
    line.setBytes(context.getParams().getId().asBytes());
    co_await line.send();
  }
};

class CalledNode final : public rpc::Node::Server {
  kj::Promise<void> logs(LogsContext context) override {
    context.getResults().setLogs(kj::heap<CalledLogs>());
    return kj::READY_NOW;
  }
};

class CalledStore final : public rpc::Store::Server {
  kj::Promise<void> put(PutContext context) override {
    auto resource = context.getParams().getResource();
    EXPECT_EQ("HostnameSpecs.net.talos.dev"_kj, resource.getMetadata().getType());
    EXPECT_EQ("n1"_kj, resource.getSpec().getAs<rpc::HostnameSpecSpec>().getHostname());
    context.getResults().setVersion(7);
    return kj::READY_NOW;
  }
  kj::Promise<void> get(GetContext context) override {
    auto resource = context.getResults().initResource();
    resource.initMetadata().setType("JoinSpecs.secrets.talos.dev");
    resource.getSpec().initAs<rpc::JoinSpec>().setToken("abcdef.0123456789abcdef");
    return kj::READY_NOW;
  }
};

class CalledMachined final : public rpc::Machined::Server {
  kj::Promise<void> node(NodeContext context) override {
    client = kj::str(context.getParams().getClient());
    context.getResults().setNode(kj::heap<CalledNode>());
    return kj::READY_NOW;
  }
  kj::Promise<void> store(StoreContext context) override {
    context.getResults().setStore(kj::heap<CalledStore>());
    return kj::READY_NOW;
  }

 public:
  static inline kj::String client;
};

struct DynamicCallTest : testing::Test {
  ~DynamicCallTest() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  Registry registry;
  kj::Vector<kj::String> shown;
  kj::Function<void(kj::StringPtr)> show = [this](kj::StringPtr line) { shown.add(kj::str(line)); };
  DynamicCall call{registry, show};

  std::string run(std::initializer_list<kj::StringPtr> words) {
    auto arguments = KJ_MAP(word, kj::arrayPtr(words.begin(), words.size())) {
      return kj::str(word);
    };
    rpc::Machined::Client machined = kj::heap<CalledMachined>();
    capnp::DynamicCapability::Client target = kj::mv(machined);
    try {
      return call.run(kj::mv(target), callSteps(arguments)).wait(io.waitScope).cStr();
    } catch (const kj::Exception& e) {
      EXPECT_EQ(ErrorKind::kInvalidArgument, kindOf(e)) << messageOf(e).cStr();
      return messageOf(e).cStr();
    }
  }
};

// Catches: parameters of another method of the chain; a sink whose lines are lost.
TEST_F(DynamicCallTest, AChainOfCapabilities) {
  EXPECT_EQ("{}",
            run({"node", "{\"client\": \"me\"}", "logs", "read", "{id: apid, follow: true}"}));
  EXPECT_EQ("me"_kj, CalledMachined::client);
  ASSERT_EQ(1u, shown.size());
  EXPECT_EQ("{\"write\":{\"bytes\":\"YXBpZA==\",\"next\":0}}"_kj, shown[0]);
}

TEST_F(DynamicCallTest, ResourcesHaveTheirSpec) {
  EXPECT_EQ("{\n    \"version\": 7\n}",
            run({"store", "put",
                 "{resource: {metadata: {type: hostnamespec, id: x}, spec: {hostname: n1}}}"}));
}

// Catches: a token on the terminal of a user who inspects a resource.
TEST_F(DynamicCallTest, SecretsAreHidden) {
  auto text = run({"store", "get", "{kind: {type: joinspec}, id: x}"});
  EXPECT_THAT(text, HasSubstr("\"token\": \"***\""));
  EXPECT_THAT(text, testing::Not(HasSubstr("0123456789")));
}

// Catches: a mistake that is sent, and answered with an unrelated error.
TEST_F(DynamicCallTest, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(run({"nodes"}), StartsWith("Machined has no method \"nodes\"; use one of\n"
                                         "  node(client :Text, request :Text) -> (node :Node)\n"));
  EXPECT_THAT(run({"node", "{client: me, x: 1}"}), HasSubstr("Machined.node:1:14"));
  EXPECT_THAT(run({"node", "{client: [a}"}), HasSubstr("Machined.node:1"));
  EXPECT_THAT(run({"{}", "node"}), HasSubstr("parameters without a method: {}"));
  EXPECT_THAT(run({"node", "{}", "{}"}), HasSubstr("parameters without a method: {}"));
  EXPECT_THAT(run({"store", "put", "{resource: {metadata: {type: hostnamespec}}}"}),
              HasSubstr("Store.put:1:12: a resource needs metadata with a type, and a spec"));
  EXPECT_THAT(
      run({"store", "put", "{resource: {metadata: {type: hostnamespec}, spec: {host: a}}}"}),
      HasSubstr("host"));
  EXPECT_THAT(run({"store", "put",
                   "{resource: {metadata: {type: hostnamespec}, spec: {hostname: n1}}}", "again"}),
              HasSubstr("Store.put returns no capability, on which again could be called"));
}

}  // namespace
}  // namespace talos::talosctl
