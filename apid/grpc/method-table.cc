#include "apid/grpc/method-table.h"

#include <capnp/dynamic.h>

#include "apid/grpc/answer-output.h"
#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/grpc-messages/message-shape.h"

namespace talos::grpcapi {
namespace {

using capnp::DynamicCapability;
using capnp::DynamicStruct;
using capnp::InterfaceSchema;

constexpr MethodRow kRows[] = {
#include "apid/grpc/method-table.inc"
};

// Two names with a dot between them; without a dot the second name is empty.
struct Pair {
  kj::String first, second;
  explicit Pair(kj::StringPtr text) {
    auto dot = text.findFirst('.').orDefault(text.size());
    first = kj::heapString(text.slice(0, dot));
    second = kj::str(text.slice(kj::min(dot + 1, text.size())));
  }
};

template <typename T>
T found(kj::Maybe<T> what, kj::StringPtr name, const MethodRow& row) {
  KJ_IF_MAYBE (it, what) return *it;
  fail(ErrorKind::kInternal, kj::str(row.path, ": rpc/ has no ", name));
}

// The methods that a row calls.
struct Target {
  InterfaceSchema::Method part;  // method of Node
  capnp::StructSchema::Field result;
  InterfaceSchema::Method method;

  explicit Target(const MethodRow& row) {
    Pair names(row.call);
    part = found(capnp::Schema::from<rpc::Node>().findMethodByName(names.first), names.first, row);
    result = part.getResultType().getFields()[0];
    method = found(result.getType().asInterface().findMethodByName(names.second), row.call, row);
  }
  capnp::Request<DynamicStruct, DynamicStruct> on(rpc::Node::Client node) const {
    DynamicCapability::Client dynamic(kj::mv(node));
    auto promise = dynamic.newRequest(part).send();
    auto capability = promise.get(result).releaseAs<DynamicCapability>();
    return capability.newRequest(method);
  }
};

// A method whose answer is the call's results.
class Unary final : public Method {
 public:
  explicit Unary(const MethodRow& row)
      : target(row),
        in(row.in, target.method.getParamType()),
        out(row.out, target.method.getResultType()) {}

  kj::Promise<void> ask(rpc::Node::Client node, Bytes request, Output& output) const override {
    auto call = target.on(kj::mv(node));
    in.decode(request, call);
    co_await output.send(co_await encoded(kj::mv(call)));
  }

 private:
  Target target;
  Shape in, out;

  // The answer of the node is not kept until the client has read it.
  kj::Promise<kj::Array<kj::byte>> encoded(
      capnp::Request<DynamicStruct, DynamicStruct> call) const {
    auto response = co_await call.send();
    co_return out.encode(response);
  }
};

// A method that answers with a message for each element of a list in the results.
class ListOfItems final : public Method {
 public:
  explicit ListOfItems(const MethodRow& row)
      : target(row),
        in(row.in, target.method.getParamType()),
        list(found(target.method.getResultType().findFieldByName(row.items), row.items, row)),
        out(row.out, list.getType().asList().getElementType().asStruct()) {}

  kj::Promise<void> ask(rpc::Node::Client node, Bytes request, Output& output) const override {
    auto call = target.on(kj::mv(node));
    in.decode(request, call);
    auto response = co_await call.send();
    auto charge = output.charge(response.totalSize());
    for (auto item : itemsOf(response.get(list).as<capnp::DynamicList>())) {
      co_await output.send(out.encode(item.as<DynamicStruct>()));
    }
  }

 private:
  Target target;
  Shape in;
  capnp::StructSchema::Field list;
  Shape out;
};

// A method whose call takes a sink: the output gets the data written to the sink.
class Stream final : public Method {
 public:
  explicit Stream(const MethodRow& row)
      : target(row),
        in(row.in, target.method.getParamType()),
        sink(found(target.method.getParamType().findFieldByName("sink"), "sink", row)) {
    kj::StringPtr items = row.items;
    auto tilde = items.findFirst('~').orDefault(items.size());
    lines = tilde < items.size();
    Pair names(kj::heapString(items.slice(0, tilde)));
    write = found(interface().findMethodByName(names.first), row.items, row);
    field = found(write.getParamType().findFieldByName(names.second), row.items, row);
    auto type = field.getType();
    if (type.isList()) item.emplace(row.out, type.asList().getElementType().asStruct());
  }

  kj::Promise<void> ask(rpc::Node::Client node, Bytes request, Output& output) const override {
    auto call = target.on(kj::mv(node));
    in.decode(request, call);
    auto lent = kj::refcounted<LentOutput>(output);
    KJ_DEFER(lent->end());
    DynamicCapability::Client mine = kj::heap<Server>(*this, kj::addRef(*lent));
    call.set(sink, mine);
    co_await call.send().ignoreResult();
    // The node has sent everything, but the client may not have taken it: an empty write waits for
    // the earlier writes.
    co_await mine.newRequest(write).sendStreaming();
  }

 private:
  Target target;
  Shape in;
  capnp::StructSchema::Field sink;
  InterfaceSchema::Method write;
  capnp::StructSchema::Field field;  // field of the method's parameters
  bool lines;
  kj::Maybe<Shape> item;

  InterfaceSchema interface() const { return sink.getType().asInterface(); }

  static kj::Array<kj::byte> bytesMessage(Bytes data) {
    WireWriter out;
    out.bytes(2, data);
    return out.finish();
  }

  kj::Promise<void> take(DynamicStruct::Reader params, LentOutput& to) const {
    auto charge = to.charge(params.totalSize());
    auto value = params.get(field);
    KJ_IF_MAYBE (shape, item) {
      for (auto element : itemsOf(value.as<capnp::DynamicList>())) {
        co_await to.send(shape->encode(element.as<DynamicStruct>()));
      }
      co_return;
    }
    auto data = value.as<capnp::Data>();
    if (!lines && data.size() > 0) co_return co_await to.send(bytesMessage(data));
    for (auto rest = data; rest.size() > 0;) {
      size_t end = 0;
      while (end < rest.size() && rest[end] != '\n') ++end;
      end = kj::min(end + 1, rest.size());
      co_await to.send(bytesMessage(rest.slice(0, end)));
      rest = rest.slice(end, rest.size());
    }
  }

  // Other methods of sinks (missed) have no counterpart in the gRPC API.
  class Server final : public DynamicCapability::Server {
   public:
    Server(const Stream& stream, kj::Own<LentOutput> to)
        : DynamicCapability::Server(stream.interface(), {.allowCancellation = true}),
          stream(stream),
          to(kj::mv(to)) {}
    kj::Promise<void> call(InterfaceSchema::Method method,
                           capnp::CallContext<DynamicStruct, DynamicStruct> context) override {
      if (to->ended()) return error(ErrorKind::kUnavailable, "the client has gone");
      if (method != stream.write) return kj::READY_NOW;
      return stream.take(context.getParams(), *to);
    }

   private:
    const Stream& stream;  // valid as long as the call
    kj::Own<LentOutput> to;
  };
};

}  // namespace

kj::Own<const Method> methodOf(const MethodRow& row) {
  kj::StringPtr items = row.items;
  if (items.size() == 0) return kj::heap<Unary>(row);
  if (items.findFirst('.') == nullptr) return kj::heap<ListOfItems>(row);
  return kj::heap<Stream>(row);
}

kj::Vector<Entry> tableEntries() {
  kj::Vector<Entry> entries;
  for (auto& row : kRows) {
    entries.add(Entry{.path = row.path,
                      .answer = row.answer,
                      .method = methodOf(row),
                      .conflictMeansExists = row.conflictMeansExists});
  }
  return entries;
}

kj::Vector<Entry> allMethods(const ResourceMessages& messages) {
  auto all = tableEntries();
  addByNamespace(all);
  addCosi(all, messages);
  addResourceService(all, messages);
  addEvents(all);
  addFacts(all);
  addTransfers(all);
  addConfiguration(all);
  addBootstrap(all);
  addHealth(all);
  return all;
}

}  // namespace talos::grpcapi
