// resource.ResourceService, the API of `talosctl get` of 0.9 to 1.1. The server resolves the
// aliases; the first message of a stream is the type's definition alone.
#include "apid/grpc/method-table.h"
#include "apid/grpc/resource-messages.h"
#include "apid/grpc/resource-watch.h"
#include "common/grpc-messages/request-fields.h"
#include "common/text/ascii.h"

namespace talos::grpcapi {
namespace {

struct OldRequest {
  kj::String space, id;
  const ResourceType& type;

  OldRequest(RequestFields request, const Registry& types)
      : space(request.text(1)), id(request.text(3)), type(types.find(request.text(2))) {
    if (space.size() == 0) space = kj::str(type.defaultNamespace);
  }
};

class Reading : public Method {
 public:
  explicit Reading(const ResourceMessages& messages) : messages(messages) {}

 protected:
  const ResourceMessages& messages;

  kj::Promise<kj::Array<kj::byte>> definitionOf(rpc::Node::Client node,
                                                const ResourceType& type) const {
    auto request = node.resourcesRequest().send().getResources().getRequest();
    request.getKind().setNamespace("meta");
    request.getKind().setType(ResourceMessages::definitions());
    request.setId(lowerCase(type.name));
    return request.send().then(
        [this](auto&& response) { return messages.old(response.getResource()); });
  }
};

class OldGet final : public Reading {
 public:
  using Reading::Reading;
  kj::Promise<void> ask(rpc::Node::Client node, Bytes message, Output& output) const override {
    OldRequest asked(RequestFields(message), messages.types());
    auto request = messages.from(node, asked.type.name).getRequest();
    request.getKind().setNamespace(asked.space);
    request.getKind().setType(asked.type.name);
    request.setId(asked.id);
    auto response = co_await request.send();
    auto charge = output.charge(response.totalSize());
    WireWriter out;
    out.bytes(2, co_await definitionOf(kj::mv(node), asked.type));
    out.bytes(3, messages.old(response.getResource()));
    co_await output.send(out.finish());  // The message is merged, so this does not wait.
  }
};

class OldList final : public Reading {
 public:
  using Reading::Reading;
  kj::Promise<void> ask(rpc::Node::Client node, Bytes message, Output& output) const override {
    OldRequest asked(RequestFields(message), messages.types());
    auto request = messages.from(node, asked.type.name).listRequest();
    request.getKind().setNamespace(asked.space);
    request.getKind().setType(asked.type.name);
    auto response = co_await request.send();
    auto charge = output.charge(response.totalSize());
    WireWriter first;
    first.bytes(2, co_await definitionOf(kj::mv(node), asked.type));
    co_await output.send(first.finish());
    for (auto resource : itemsOf(response.getResources())) {
      WireWriter out;
      out.bytes(3, messages.old(resource));
      co_await output.send(out.finish());
    }
  }
};

// Sends WatchResponse: 2 event, 3 definition, 4 resource.
class OldChanges final : public WatchListener {
 public:
  OldChanges(const ResourceMessages& messages, const OldRequest& asked,
             kj::Array<kj::byte> definition, Output& output)
      : messages(messages), asked(asked), definition(kj::mv(definition)), output(output) {}

  kj::Promise<void> begin() override {
    WireWriter out;
    out.bytes(3, definition);
    return output.send(out.finish());
  }
  kj::Promise<void> bootstrapped() override { return kj::READY_NOW; }
  kj::Promise<void> changed(Event event, rpc::Resource::Reader resource) override {
    WireWriter out;
    if (event != Event::kCreated) out.varint(2, unsigned(event));
    out.bytes(4, messages.old(resource));
    return output.send(out.finish());
  }
  kj::Promise<void> gone(kj::StringPtr id) override {
    capnp::MallocMessageBuilder built;
    auto resource = built.initRoot<rpc::Resource>();
    auto metadata = resource.initMetadata();
    metadata.setNamespace(asked.space);
    metadata.setType(asked.type.name);
    metadata.setId(id);
    return changed(Event::kDestroyed, resource);
  }
  AnswerCharge charge(capnp::MessageSize kept) override { return output.charge(kept); }

 private:
  const ResourceMessages& messages;
  const OldRequest& asked;
  kj::Array<kj::byte> definition;
  Output& output;
};

class OldWatch final : public Reading {
 public:
  using Reading::Reading;
  kj::Promise<void> ask(rpc::Node::Client node, Bytes message, Output& output) const override {
    OldRequest asked(RequestFields(message), messages.types());
    auto definition = co_await definitionOf(node, asked.type);
    auto charge = output.charge({definition.size() / sizeof(capnp::word), 0});
    OldChanges changes(messages, asked, kj::mv(definition), output);
    co_await watch(messages.from(kj::mv(node), asked.type.name), asked.space, asked.type.name,
                   asked.id, changes);
  }
};

}  // namespace

void addResourceService(kj::Vector<Entry>& all, const ResourceMessages& messages) {
  all.add(Entry{"/resource.ResourceService/Get", Answer::kMerged, kj::heap<OldGet>(messages)});
  all.add(Entry{"/resource.ResourceService/List", Answer::kItems, kj::heap<OldList>(messages)});
  all.add(Entry{"/resource.ResourceService/Watch", Answer::kItems, kj::heap<OldWatch>(messages)});
}

}  // namespace talos::grpcapi
