// cosi.resource.State, the API of `talosctl get` from 1.2 on. One node at a time, messages without
// the node's name.
//
// An unknown type or namespace is PermissionDenied, as in Talos: the dashboard of its
// clients continues without such a type, and restarts again and again for any other error.
#include "apid/grpc/method-table.h"
#include "apid/grpc/resource-messages.h"
#include "apid/grpc/resource-watch.h"
#include "common/grpc-messages/request-fields.h"

namespace talos::grpcapi {
namespace {

struct CosiRequest {
  kj::String space, type, id;
  bool one;  // an id was given
  RequestFields options;
  Kind ours;  // the kind of our API

  Kind kind() const { return {space, type}; }

  // `options`: the number of this field; a list has no id.
  CosiRequest(const ResourceMessages& messages, RequestFields request, uint32_t options)
      : space(request.text(1)),
        type(request.text(2)),
        id(options == 3 ? kj::String() : request.text(3)),
        one(id.size() > 0),
        options(request.in(options)),
        ours(messages.oursOf(kind(), id)) {}
  KJ_DISALLOW_COPY_AND_MOVE(CosiRequest);
};

void checkKind(const ResourceMessages& messages, const CosiRequest& asked) {
  if (messages.types().byName(asked.ours.type) == nullptr) {
    fail(ErrorKind::kPermissionDenied,
         kj::str("resource type \"", asked.type, "\" is not supported"));
  }
  for (auto space : Registry::namespaces()) {
    if (asked.ours.space == space) return;
  }
  fail(ErrorKind::kPermissionDenied, kj::str("namespace \"", asked.space, "\" is not supported"));
}

// Refuses options that are not supported and that no command of Talos sets. Events in groups
// (5) are ignored: a group may have one event.
void refuse(const RequestFields& options, std::initializer_list<uint32_t> numbers) {
  for (auto number : numbers) {
    if (!options.flag(number) && options.bytes(number).size() == 0) continue;
    fail(ErrorKind::kUnimplemented, "filters and bookmarks of resources are not supported");
  }
}

kj::Array<kj::byte> inField(uint32_t number, Bytes message) {
  WireWriter out;
  out.bytes(number, message);
  return out.finish();
}

class CosiGet final : public Method {
 public:
  explicit CosiGet(const ResourceMessages& messages) : messages(messages) {}
  kj::Promise<void> ask(rpc::Node::Client node, Bytes message, Output& output) const override {
    CosiRequest asked(messages, RequestFields(message), 4);
    checkKind(messages, asked);
    auto request = messages.from(kj::mv(node), asked.ours.type).getRequest();
    request.getKind().setNamespace(asked.ours.space);
    request.getKind().setType(asked.ours.type);
    request.setId(asked.id);
    auto answer = request.send().then([&](auto&& response) {  // The answer is not kept until the
                                                              // client reads it.
      return inField(1, messages.cosi(response.getResource(), asked.kind()));
    });
    co_await output.send(co_await answer);
  }

 private:
  const ResourceMessages& messages;
};

class CosiList final : public Method {
 public:
  explicit CosiList(const ResourceMessages& messages) : messages(messages) {}
  kj::Promise<void> ask(rpc::Node::Client node, Bytes message, Output& output) const override {
    CosiRequest asked(messages, RequestFields(message), 3);
    checkKind(messages, asked);
    refuse(asked.options, {1, 2});
    auto request = messages.from(kj::mv(node), asked.ours.type).listRequest();
    request.getKind().setNamespace(asked.ours.space);
    request.getKind().setType(asked.ours.type);
    auto response = co_await request.send();
    auto charge = output.charge(response.totalSize());
    for (auto resource : itemsOf(response.getResources())) {
      co_await output.send(inField(1, messages.cosi(resource, asked.kind())));
    }
  }

 private:
  const ResourceMessages& messages;
};

// Sends WatchResponse: 1 event {1 resource, 2 type}.
class CosiEvents final : public WatchListener {
 public:
  CosiEvents(const ResourceMessages& messages, const CosiRequest& asked, Output& output)
      : messages(messages), asked(asked), output(output) {
    contents = asked.one || asked.options.flag(1);
  }

  // The client waits for an empty response, which confirms the watch.
  kj::Promise<void> begin() override { return output.send(nullptr); }

  kj::Promise<void> bootstrapped() override {
    bool empty = asked.one && !snapshotDone;
    snapshotDone = true;
    if (empty) return gone(asked.id);
    if (asked.one || !contents) return kj::READY_NOW;
    return send(kBootstrapped, nullptr);
  }

  kj::Promise<void> changed(Event event, rpc::Resource::Reader resource) override {
    if (!snapshotDone && !contents) return kj::READY_NOW;
    if (asked.one) snapshotDone = true;
    if (event == Event::kDestroyed) return gone(resource.getMetadata().getId());
    return send(unsigned(event), messages.cosi(resource, asked.kind()));
  }

  kj::Promise<void> gone(kj::StringPtr id) override {
    return send(unsigned(Event::kDestroyed), messages.absent(asked.kind(), id));
  }
  AnswerCharge charge(capnp::MessageSize kept) override { return output.charge(kept); }

 private:
  static constexpr unsigned kBootstrapped = 3;
  const ResourceMessages& messages;
  const CosiRequest& asked;
  Output& output;
  bool contents;              // send existing resources
  bool snapshotDone = false;  // The first snapshot was sent.

  kj::Promise<void> send(unsigned type, Bytes resource) {
    WireWriter event;
    if (resource.size() > 0) event.bytes(1, resource);
    if (type != 0) event.varint(2, type);
    return output.send(inField(1, event.written()));
  }
};

class CosiWatch final : public Method {
 public:
  explicit CosiWatch(const ResourceMessages& messages) : messages(messages) {}
  kj::Promise<void> ask(rpc::Node::Client node, Bytes message, Output& output) const override {
    CosiRequest asked(messages, RequestFields(message), 4);
    checkKind(messages, asked);
    refuse(asked.options, {2, 3, 4, 6, 7});
    CosiEvents events(messages, asked, output);
    co_await watch(messages.from(kj::mv(node), asked.ours.type), asked.ours.space, asked.ours.type,
                   asked.id, events);
  }

 private:
  const ResourceMessages& messages;
};

// Talos refuses every write, from every caller.
class Refused final : public Method {
 public:
  kj::Promise<void> ask(rpc::Node::Client, Bytes, Output&) const override {
    return error(ErrorKind::kPermissionDenied, "write access is not allowed");
  }
};

}  // namespace

void addCosi(kj::Vector<Entry>& all, const ResourceMessages& messages) {
  all.add(Entry{"/cosi.resource.State/Get", Answer::kPlain, kj::heap<CosiGet>(messages)});
  all.add(Entry{"/cosi.resource.State/List", Answer::kPlainItems, kj::heap<CosiList>(messages)});
  all.add(Entry{"/cosi.resource.State/Watch", Answer::kPlainItems, kj::heap<CosiWatch>(messages)});
  for (auto path : {"/cosi.resource.State/Create", "/cosi.resource.State/Update",
                    "/cosi.resource.State/Destroy", "/cosi.resource.State/Teardown",
                    "/cosi.resource.State/TeardownAndDestroy"}) {
    all.add(Entry{path, Answer::kPlain, kj::heap<Refused>()});
  }
}

}  // namespace talos::grpcapi
