#include "apid/edge/table.h"

#include <capnp/dynamic.h>

#include "apid/edge/shape.h"
#include "common/base/error.h"
#include "common/base/lines.h"

namespace talos::edge {
namespace {

using capnp::DynamicCapability;
using capnp::DynamicStruct;
using capnp::InterfaceSchema;

constexpr Row kRows[] = {
#include "apid/edge/table.inc"
};

// Two words with a dot between them; the second is empty without one.
struct Pair {
  kj::String first, second;
  explicit Pair(kj::StringPtr text) {
    auto dot = text.findFirst('.').orDefault(text.size());
    first = kj::heapString(text.slice(0, dot));
    second = kj::str(text.slice(kj::min(dot + 1, text.size())));
  }
};

template <typename T>
T found(kj::Maybe<T> what, kj::StringPtr name, const Row& row) {
  KJ_IF_MAYBE (it, what) return *it;
  fail(ErrorKind::kInternal, kj::str(row.path, ": rpc/ has no ", name));
}

// What a call goes to.
struct Target {
  InterfaceSchema::Method part;  // of Node
  capnp::StructSchema::Field result;
  InterfaceSchema::Method method;

  explicit Target(const Row& row) {
    Pair names(row.call);
    part = found(capnp::Schema::from<rpc::Node>().findMethodByName(names.first), names.first, row);
    result = part.getResultType().getFields()[0];
    method = found(result.getType().asInterface().findMethodByName(names.second), row.call, row);
  }
  capnp::Request<DynamicStruct, DynamicStruct> on(rpc::Node::Client node) const {
    DynamicCapability::Client dynamic(kj::mv(node));
    auto promise = dynamic.newRequest(part).send();
    auto there = promise.get(result).releaseAs<DynamicCapability>();
    return there.newRequest(method);
  }
};

// One message of the answer is what the call gives.
class Unary final : public Method {
 public:
  explicit Unary(const Row& row)
      : target(row),
        in(row.in, target.method.getParamType()),
        out(row.out, target.method.getResultType()) {}

  kj::Promise<void> ask(rpc::Node::Client node, Bytes request, Output& output) const override {
    auto call = target.on(kj::mv(node));
    in.decode(request, call);
    auto response = co_await call.send();
    co_await output.send(out.encode(response));
  }

 private:
  Target target;
  Shape in, out;
};

// Each element of a list in the results is one.
class ListOfItems final : public Method {
 public:
  explicit ListOfItems(const Row& row)
      : target(row),
        in(row.in, target.method.getParamType()),
        list(found(target.method.getResultType().findFieldByName(row.items), row.items, row)),
        out(row.out, list.getType().asList().getElementType().asStruct()) {}

  kj::Promise<void> ask(rpc::Node::Client node, Bytes request, Output& output) const override {
    auto call = target.on(kj::mv(node));
    in.decode(request, call);
    auto response = co_await call.send();
    for (auto item : response.get(list).as<capnp::DynamicList>()) {
      co_await output.send(out.encode(item.as<DynamicStruct>()));
    }
  }

 private:
  Target target;
  Shape in;
  capnp::StructSchema::Field list;
  Shape out;
};

// A call that takes a sink, which gives what comes to the output.
class Stream final : public Method {
 public:
  explicit Stream(const Row& row)
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
    // The node may hold the sink for longer than this call lasts.
    auto taker = kj::refcounted<Taker>(*this, output);
    KJ_DEFER(taker->end());
    call.set(sink, DynamicCapability::Client(kj::heap<Server>(interface(), kj::addRef(*taker))));
    co_await call.send().ignoreResult();
  }

 private:
  Target target;
  Shape in;
  capnp::StructSchema::Field sink;
  InterfaceSchema::Method write;
  capnp::StructSchema::Field field;  // of its parameters
  bool lines;
  kj::Maybe<Shape> item;

  InterfaceSchema interface() const { return sink.getType().asInterface(); }

  class Taker final : public kj::Refcounted {
   public:
    Taker(const Stream& stream, Output& output) : stream(stream), output(output) {}
    void end() { output = nullptr; }

    // What other methods tell, that something was missed, has no counterpart there.
    kj::Promise<void> take(InterfaceSchema::Method method, DynamicStruct::Reader params) {
      if (output == nullptr) return error(ErrorKind::kUnavailable, "the client has gone");
      if (method != stream.write) return kj::READY_NOW;
      return takeItems(params);
    }

   private:
    const Stream& stream;  // as long as there is an output
    kj::Maybe<Output&> output;

    kj::Promise<void> takeItems(DynamicStruct::Reader params) {
      auto value = params.get(stream.field);
      KJ_IF_MAYBE (shape, stream.item) {
        for (auto element : value.as<capnp::DynamicList>()) {
          co_await send(shape->encode(element.as<DynamicStruct>()));
        }
        co_return;
      }
      auto data = value.as<capnp::Data>();
      if (!stream.lines) co_return co_await send(bytesMessage(data));
      for (auto rest = data; rest.size() > 0;) {
        size_t end = 0;
        while (end < rest.size() && rest[end] != '\n') ++end;
        end = kj::min(end + 1, rest.size());
        co_await send(bytesMessage(rest.slice(0, end)));
        rest = rest.slice(end, rest.size());
      }
    }

    static kj::Array<kj::byte> bytesMessage(Bytes data) {
      WireWriter out;
      out.bytes(2, data);
      return out.finish();
    }
    kj::Promise<void> send(kj::Array<kj::byte> message) {
      KJ_IF_MAYBE (o, output) return o->send(kj::mv(message));
      return error(ErrorKind::kUnavailable, "the client has gone");
    }
  };
  class Server final : public DynamicCapability::Server {
   public:
    Server(InterfaceSchema schema, kj::Own<Taker> taker)
        : DynamicCapability::Server(schema, {.allowCancellation = true}), taker(kj::mv(taker)) {}
    kj::Promise<void> call(InterfaceSchema::Method method,
                           capnp::CallContext<DynamicStruct, DynamicStruct> context) override {
      return taker->take(method, context.getParams());
    }

   private:
    kj::Own<Taker> taker;
  };
};

}  // namespace

kj::Own<const Method> methodOf(const Row& row) {
  kj::StringPtr items = row.items;
  if (items.size() == 0) return kj::heap<Unary>(row);
  if (items.findFirst('.') == nullptr) return kj::heap<ListOfItems>(row);
  return kj::heap<Stream>(row);
}

kj::Vector<Entry> tableEntries() {
  kj::Vector<Entry> entries;
  for (auto& row : kRows) {
    entries.add(Entry{row.path, row.answer, methodOf(row), row.conflictMeansExists});
  }
  return entries;
}

}  // namespace talos::edge
