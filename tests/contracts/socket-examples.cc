#include "tests/contracts/socket-examples.h"

#include <capnp/compat/json.h>
#include <capnp/dynamic.h>
#include <capnp/message.h>

#include "rpc/backups.capnp.h"
#include "rpc/local.capnp.h"
#include "rpc/node.capnp.h"
#include "rpc/trust.capnp.h"

namespace talos::contracts {
namespace {

struct Example {
  capnp::InterfaceSchema bootstrap, called;
  kj::StringPtr way;  // from the first to the second
  kj::StringPtr method, params, results;
};

const Example kExamples[] = {
    {capnp::Schema::from<rpc::Machined>(), capnp::Schema::from<rpc::Machined>(), "", "audit",
     R"j({"record": {"client": "admin", "address": "10.5.0.1", "roles": ["os:admin"],
         "call": "Services.restart(id: \"kubelet\")", "outcome": "ok", "durationUs": "1840"}})j",
     "{}"},
    {capnp::Schema::from<rpc::Networkd>(), capnp::Schema::from<rpc::Network>(), "network().",
     "interfaces", "{}",
     R"({"interfaces": [{"index": 2, "mtu": 1500, "name": "eth0",
         "hardwareAddress": "52:54:00:12:34:56", "flags": ["UP", "BROADCAST", "MULTICAST"],
         "addresses": ["10.5.0.2/24"]}]})"},
    {capnp::Schema::from<rpc::EtcdSupervisor>(), capnp::Schema::from<rpc::EtcdSupervisor>(), "",
     "outlook", R"({"kind": "leaves"})",
     R"({"members": [], "objection": "it is the only member of its cluster"})"},
    {capnp::Schema::from<rpc::Backupd>(), capnp::Schema::from<rpc::Backupd>(), "", "list",
     R"({"store": "https://s3.example.org/backups", "prefix": "c1/"})",
     R"({"names": ["c1/etcd-20261129T024600Z-1f.snapshot.cms"]})"},
    {capnp::Schema::from<rpc::Kubed>(), capnp::Schema::from<rpc::Kubernetes>(), "kubernetes().",
     "survey", "{}",
     R"({"survey": {"server": "10.5.0.2:6443", "version": "v1.34.4", "nodes":
         [{"name": "cp-1", "ready": true, "controlPlane": true, "unschedulable": false,
           "since": "1795176455"}], "unreadPods": 0}})"},
    {capnp::Schema::from<rpc::Cluster>(), capnp::Schema::from<rpc::Services>(),
     "node(\"10.5.0.2\").services().", "restart", R"({"id": "kubelet"})",
     R"j({"response": "Service \"kubelet\" restarted"})j"},
    {capnp::Schema::from<rpc::Trust>(), capnp::Schema::from<rpc::Trust>(), "", "prove",
     R"({"token": "abcdef.0123456789abcdef"})",
     R"({"address": "10.5.0.4", "servers": ["10.5.0.2", "fd00::2"]})"}};

// Decoded and encoded again, so it is as a program would write it.
kj::String checked(capnp::StructSchema schema, kj::StringPtr json) {
  capnp::JsonCodec codec;
  codec.setRejectUnknownFields(true);
  codec.setPrettyPrint(true);
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<capnp::DynamicStruct>(schema);
  codec.decode(json, root);
  return codec.encode(root.asReader());
}

}  // namespace

kj::String exampleOf(capnp::InterfaceSchema bootstrap) {
  for (auto& example : kExamples) {
    if (!(example.bootstrap == bootstrap)) continue;
    auto method = example.called.getMethodByName(example.method);
    return kj::str("`", example.way, example.method,
                   "`: the parameters, and the answer.\n\n```json\n",
                   checked(method.getParamType(), example.params), "\n",
                   checked(method.getResultType(), example.results), "\n```\n");
  }
  KJ_FAIL_REQUIRE("no example of this interface", bootstrap.getShortDisplayName());
}

}  // namespace talos::contracts
