// Models of a node beside machined's own servers: they refuse the same calls with the same kind of
// error. What one does not have at all, it says so (Unimplemented).
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

// At least so many of the calls have to be the model's own: one that lacks all of them agrees.
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

// Catches: a model of a node that does what a node refuses, or refuses it with another error, so
// that a command is never tried with the error that its user will see.
TEST(NodeContract, TheModelOfTheCommandsRefusesWhatANodeRefuses) {
  auto real = refusalsOfMachined();
  auto io = kj::setupAsyncIo();
  talosctl::FakeNode fake;
  fake.serviceIds.add(kj::str("apid"));
  expectSame(real, NodeRefusals(io, kj::heap<talosctl::FakeNodeServer>(fake), "apid").all(), 14);
}

// Catches: the same of the models behind which apid's gRPC API is tested, whose status codes are
// made of these kinds.
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
