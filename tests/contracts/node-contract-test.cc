// Models of a node beside machined's own servers: they refuse the same calls with the same kind of
// error. A model answers Unimplemented to calls that it lacks.
#include <gtest/gtest.h>

#include "apid/grpc/test-machine-model.h"
#include "apid/grpc/test-node-model.h"
#include "talosctl/commands/test-node.h"
#include "tests/contracts/node-refusals.h"
#include "tests/contracts/schema-comments.h"
#include "tests/testbeds/machined-testbed.h"

namespace talos {
namespace {

using contracts::kLacks;
using contracts::NodeRefusals;
using contracts::Outcome;

std::vector<Outcome> refusalsOfMachined() {
  auto io = kj::setupAsyncIo();
  testbeds::MachinedTestbed bed(io, io.provider->getTimer());
  auto machined = bed.open().castAs<rpc::Machined>();
  return NodeRefusals(io, machined.nodeRequest().send().getNode(), "probe").all();
}

// At least `least` of the calls must be the model's own: a model that lacks all of them would
// agree.
void expectSame(const std::vector<Outcome>& real, const std::vector<Outcome>& model, size_t least) {
  ASSERT_EQ(real.size(), model.size());
  size_t own = 0;
  for (auto i : kj::indices(real)) {
    if (model[i].kind == kLacks) continue;
    ++own;
    EXPECT_EQ(real[i].kind, model[i].kind) << real[i].method << ", call " << i;
  }
  EXPECT_LE(least, own);
}

// Catches: a model that does what a node refuses, or refuses it with another error, so that a
// command is never tested with the error that its user will get.
TEST(NodeContract, TheModelOfTheCommandsRefusesWhatANodeRefuses) {
  auto real = refusalsOfMachined();
  auto io = kj::setupAsyncIo();
  talosctl::FakeNode fake;
  fake.serviceIds.add(kj::str("apid"));
  expectSame(real, NodeRefusals(io, kj::heap<talosctl::FakeNodeServer>(fake), "apid").all(), 14);
}

// Catches: differences between a node's refusals and those of the models that test apid's gRPC API,
// whose status codes depend on the kinds of these refusals.
TEST(NodeContract, TheModelsOfTheGrpcApiRefuseWhatANodeRefuses) {
  auto real = refusalsOfMachined();
  auto io = kj::setupAsyncIo();
  {
    grpcapi::Record record;
    expectSame(real, NodeRefusals(io, kj::heap<grpcapi::ModelNode>("v1.0.0", record), "apid").all(),
               6);
  }
  grpcapi::Testbed bed;
  expectSame(real, NodeRefusals(io, kj::heap<grpcapi::FakeNode>(bed), "apid").all(), 1);
}

// Catches: an error of the API that the documents do not name; a call that was to be refused and
// was not.
TEST(NodeContract, TheErrorsAreThoseOfTheDocuments) {
  SchemaComments comments(TALOS_SOURCE_DIR);
  const std::map<std::string, capnp::InterfaceSchema> kInterfaces = {
      {"Services", capnp::Schema::from<rpc::Services>()},
      {"Logs", capnp::Schema::from<rpc::Logs>()},
      {"Events", capnp::Schema::from<rpc::Events>()},
      {"Resources", capnp::Schema::from<rpc::Resources>()}};
  auto ofList =
      errorsNamedIn(comments.of(capnp::Schema::from<rpc::Resources>().getMethodByName("list")));
  for (auto& [method, kind] : refusalsOfMachined()) {
    auto dot = method.find('.');
    auto schema = kInterfaces.at(method.substr(0, dot));
    auto named = errorsNamedIn(comments.of(schema.getMethodByName(method.substr(dot + 1).c_str())));
    if (method.starts_with("Resources.")) named.insert(ofList.begin(), ofList.end());
    bool is = false;
    for (auto one : named) is = is || kind == nameOf(one).cStr();
    EXPECT_TRUE(is) << method << ": " << kind;
  }
}

}  // namespace
}  // namespace talos
