// For tests: hostile nodes. Such a node answers every method of every interface from the schema:
// each text and each data is hostile, each list has two items, each capability is another hostile
// server, and each capability that a caller passes in is called with the same content. So new
// methods are answered without a change here.
#pragma once

#include <capnp/dynamic.h>

#include "common/base/error.h"
#include "common/wire/resource-registry.h"
#include "rpc/node.capnp.h"

namespace talos::talosctl {

// Text with every kind of control sequence that a terminal executes, and with a second line.
constexpr kj::StringPtr kEvil =
    "evil\x1b]0;owned\x07\x1b[31m\xc2\x9b"
    "2J\x7f\xe2\x80\xae\xe2\x80\x8b\xff\r\nforged"_kj;
constexpr kj::StringPtr kMark = "evil"_kj;

enum class Hostility {
  kAnswers,       // answers with the first member of each union and enum
  kOtherAnswers,  // answers with the last member
  kFails,         // fails every call of a node with a hostile message
};

class HostileServer final : public capnp::DynamicCapability::Server {
 public:
  HostileServer(capnp::InterfaceSchema schema, Hostility hostility)
      : Server(schema), hostility(hostility) {}

  // Returns the bootstrap capability of a hostile cluster.
  static capnp::Capability::Client cluster(Hostility hostility) {
    return rpc::Cluster::Client(
        capnp::DynamicCapability::Client(
            kj::heap<HostileServer>(capnp::Schema::from<rpc::Cluster>(), hostility))
            .as<rpc::Cluster>());
  }

  kj::Promise<void> call(
      capnp::InterfaceSchema::Method method,
      capnp::CallContext<capnp::DynamicStruct, capnp::DynamicStruct> context) override {
    auto params = context.getParams();
    if (hostility == Hostility::kFails && !givesCapability(method)) {
      fail(ErrorKind::kFailedPrecondition, kEvil);
    }
    for (auto field : params.getSchema().getFields()) {
      if (!field.getType().isInterface() || !params.has(field)) continue;
      co_await callAll(params.get(field).as<capnp::DynamicCapability>(), typeIn(params));
    }
    if (!method.isStreaming()) fill(context.getResults(), typeIn(params), 0);
  }

 private:
  Hostility hostility;

  // Returns true for methods that lead to a node's methods.
  static bool givesCapability(capnp::InterfaceSchema::Method method) {
    for (auto field : method.getResultType().getFields()) {
      if (field.getType().isInterface()) return true;
    }
    return false;
  }

  // Returns the resource type that the call requests; empty if it requests no resource.
  static kj::String typeIn(capnp::DynamicStruct::Reader params) {
    KJ_IF_MAYBE (field, params.getSchema().findFieldByName("kind")) {
      if (field->getType().isStruct()) {
        return kj::str(params.get(*field).as<capnp::DynamicStruct>().get("type").as<capnp::Text>());
      }
    }
    return kj::String();
  }

  kj::Promise<void> callAll(capnp::DynamicCapability::Client sink, kj::String type) {
    for (auto method : sink.getSchema().getMethods()) {
      auto request = sink.newRequest(method);
      fill(request, type, 0);
      // The client may refuse the call.
      co_await request.send().ignoreResult().catch_([](kj::Exception&&) {});
    }
  }

  template <typename Members>
  auto chosen(Members&& members) const {
    return members[hostility == Hostility::kOtherAnswers ? members.size() - 1 : 0];
  }

  void fill(capnp::DynamicStruct::Builder target, kj::StringPtr type, unsigned depth) {
    constexpr unsigned kDeepest = 6;
    if (depth > kDeepest) return;
    if (target.getSchema() == capnp::Schema::from<rpc::Resource>()) fillSpec(target, type, depth);
    for (auto field : target.getSchema().getNonUnionFields()) fillField(target, field, type, depth);
    auto members = target.getSchema().getUnionFields();
    if (members.size() > 0) fillField(target, chosen(members), type, depth);
  }

  void fillSpec(capnp::DynamicStruct::Builder target, kj::StringPtr type, unsigned depth) {
    static const Registry registry;
    kj::runCatchingExceptions([&]() {  // an unknown type has no spec
      fill(target.as<rpc::Resource>().getSpec().initAs<capnp::DynamicStruct>(
               registry.find(type).schema),
           type, depth + 1);
    });
  }

  void fillField(capnp::DynamicStruct::Builder target, capnp::StructSchema::Field field,
                 kj::StringPtr type, unsigned depth) {
    auto kind = field.getType();
    if (kind.isList()) {
      fillList(target.init(field, 2).as<capnp::DynamicList>(), type, depth);
    } else if (kind.isStruct()) {
      fill(target.init(field).as<capnp::DynamicStruct>(), type, depth + 1);
    } else if (kind.isInterface()) {
      target.set(field, capnp::DynamicCapability::Client(
                            kj::heap<HostileServer>(kind.asInterface(), hostility)));
    } else if (!kind.isAnyPointer()) {
      target.set(field, scalar(kind));
    }
  }

  void fillList(capnp::DynamicList::Builder list, kj::StringPtr type, unsigned depth) {
    auto kind = list.getSchema().getElementType();
    for (auto i : kj::zeroTo(list.size())) {
      if (kind.isStruct()) {
        fill(list[i].as<capnp::DynamicStruct>(), type, depth + 1);
      } else if (!kind.isList() && !kind.isInterface() && !kind.isAnyPointer()) {
        list.set(i, scalar(kind));
      }
    }
  }

  capnp::DynamicValue::Reader scalar(capnp::Type kind) const {
    if (kind.isText()) return capnp::Text::Reader(kEvil);
    if (kind.isData()) return capnp::Data::Reader(kEvil.asBytes());
    if (kind.isVoid()) return capnp::VOID;
    if (kind.isBool()) return hostility == Hostility::kAnswers;
    if (kind.isEnum()) return capnp::DynamicEnum(chosen(kind.asEnum().getEnumerants()));
    return 1u;
  }
};

}  // namespace talos::talosctl
