#include "common/wire/audit.h"

#include <kj/debug.h>

#include "common/base/annotation.h"
#include "common/base/error.h"

namespace talos {
namespace {

constexpr size_t kLongestText = 120;
constexpr size_t kLongestOutcome = 512;
constexpr unsigned kMostItems = 16;
constexpr unsigned kDeepest = 4;

// Returns the first bytes of a text, cut between characters, and a sign if there were more.
kj::String beginning(kj::StringPtr text, size_t most) {
  if (text.size() <= most) return kj::str(text);
  size_t end = most;
  while (end > 0 && (text[end] & 0xc0) == 0x80) --end;
  return kj::str(text.slice(0, end), "...");
}

// Returns a text parameter as it stands in a record. The log in which the record is written escapes
// what is not plain.
kj::String describeText(kj::StringPtr text) {
  kj::Vector<char> out;
  out.add('"');
  for (char c : beginning(text, kLongestText)) {
    if (c == '"' || c == '\\') out.add('\\');
    out.add(c);
  }
  out.add('"');
  out.add('\0');
  return kj::String(out.releaseAsArray());
}

kj::String describeStruct(capnp::DynamicStruct::Reader value, unsigned depth);
kj::String describeList(capnp::DynamicList::Reader list, unsigned depth);

// Returns an empty text for values without a text.
kj::String describeValue(capnp::DynamicValue::Reader value, unsigned depth) {
  switch (value.getType()) {
    case capnp::DynamicValue::BOOL:
    case capnp::DynamicValue::INT:
    case capnp::DynamicValue::UINT:
    case capnp::DynamicValue::FLOAT:
      return kj::str(value);
    case capnp::DynamicValue::ENUM: {
      auto member = value.as<capnp::DynamicEnum>();
      KJ_IF_MAYBE (known, member.getEnumerant()) {
        return kj::str(known->getProto().getName());
      }
      return kj::str(member.getRaw());
    }
    case capnp::DynamicValue::TEXT:
      return describeText(value.as<capnp::Text>());
    case capnp::DynamicValue::DATA:
      return kj::str(value.as<capnp::Data>().size(), " bytes");
    case capnp::DynamicValue::LIST:
      return describeList(value.as<capnp::DynamicList>(), depth);
    case capnp::DynamicValue::STRUCT:
      return describeStruct(value.as<capnp::DynamicStruct>(), depth);
    default:
      return kj::String();
  }
}

kj::String describeList(capnp::DynamicList::Reader list, unsigned depth) {
  kj::Vector<kj::String> items;
  for (unsigned i = 0; i < kj::min(list.size(), kMostItems); ++i) {
    items.add(describeValue(list[i], depth + 1));
  }
  if (list.size() > kMostItems) items.add(kj::str(list.size() - kMostItems, " more"));
  return kj::str('[', kj::strArray(items, ", "), ']');
}

kj::String describeFields(capnp::DynamicStruct::Reader value, unsigned depth) {
  kj::Vector<kj::String> fields;
  auto add = [&](capnp::StructSchema::Field field) {
    if (!value.has(field, capnp::HasMode::NON_DEFAULT)) return;
    auto text = annotation::has(field, annotation::kSecret)
                    ? kj::str("***")
                    : describeValue(value.get(field), depth + 1);
    if (text.size() > 0) fields.add(kj::str(field.getProto().getName(), ": ", text));
  };
  for (auto field : value.getSchema().getNonUnionFields()) add(field);
  KJ_IF_MAYBE (field, value.which()) {
    add(*field);
  }
  return kj::str('(', kj::strArray(fields, ", "), ')');
}

kj::String describeStruct(capnp::DynamicStruct::Reader value, unsigned depth) {
  return depth > kDeepest ? kj::str("(...)") : describeFields(value, depth);
}

// A call that is recorded when it has ended, in whatever way.
class AuditedCall final : public capnp::Capability::Server {
 public:
  AuditedCall(capnp::Capability::Client target, kj::String method, capnp::StructSchema params,
              kj::Own<AuditTrail> trail, kj::Maybe<kj::Exception> refusal)
      : target(kj::mv(target)),
        method(kj::mv(method)),
        params(params),
        trail(kj::mv(trail)),
        refusal(kj::mv(refusal)) {}

  DispatchCallResult dispatchCall(
      uint64_t interfaceId, uint16_t methodId,
      capnp::CallContext<capnp::AnyPointer, capnp::AnyPointer> context) override {
    return {run(interfaceId, methodId, context), false, true};
  }

 private:
  capnp::Capability::Client target;
  kj::String method;
  capnp::StructSchema params;
  kj::Own<AuditTrail> trail;
  kj::Maybe<kj::Exception> refusal;

  // A call that is dropped before its end is recorded as such.
  class Running {
   public:
    Running(kj::Own<AuditTrail> trail, kj::String text)
        : trail(kj::mv(trail)), text(kj::mv(text)), begin(this->trail->now()) {}
    ~Running() noexcept(false) {
      if (!ended) (void)finish(kj::str("the caller disconnected before the call ended"), false);
    }
    KJ_DISALLOW_COPY_AND_MOVE(Running);

    kj::Promise<void> finish(kj::String outcome, bool refused) {
      ended = true;
      return trail->record({.text = kj::mv(text),
                            .outcome = kj::mv(outcome),
                            .refused = refused,
                            .duration = trail->now() - begin});
    }

   private:
    kj::Own<AuditTrail> trail;
    kj::String text;
    kj::TimePoint begin;
    bool ended = false;
  };

  // Returns only the name of the method, if the parameters are not a message of its type.
  kj::String describe(capnp::AnyPointer::Reader given) {
    auto text = kj::str(method, "(?)");
    auto unreadable = kj::runCatchingExceptions(
        [&] { text = describeCall(method, given.getAs<capnp::DynamicStruct>(params)); });
    return text;
  }

  kj::Promise<void> run(uint64_t interfaceId, uint16_t methodId,
                        capnp::CallContext<capnp::AnyPointer, capnp::AnyPointer> context) {
    Running running(trail->addRef(), describe(context.getParams()));
    auto failure = kj::cp(refusal);
    bool refused = failure != nullptr;
    if (!refused) {
      try {
        auto given = context.getParams();
        auto request =
            target.typelessRequest(interfaceId, methodId, given.targetSize(), CallHints());
        request.set(given);
        context.releaseParams();
        auto response = co_await request.send();
        context.getResults(response.targetSize()).set(response);
      } catch (...) {
        failure = kj::getCaughtExceptionAsKj();
      }
    }
    co_await running.finish(outcomeOf(failure), refused);
    KJ_IF_MAYBE (e, failure) {
      kj::throwFatalException(kj::mv(*e));
    }
  }

  using CallHints = capnp::Capability::Client::CallHints;
};

}  // namespace

kj::String describeCall(kj::StringPtr method, capnp::DynamicStruct::Reader params) {
  return beginning(kj::str(method, describeFields(params, 0)), kLongestCall);
}

kj::String outcomeOf(const kj::Maybe<kj::Exception>& failure) {
  KJ_IF_MAYBE (e, failure) {
    return kj::str(nameOf(kindOf(*e)), ": ", beginning(messageOf(*e), kLongestOutcome));
  }
  return kj::str("ok");
}

capnp::Capability::Client audited(capnp::Capability::Client target, kj::String method,
                                  capnp::StructSchema params, kj::Own<AuditTrail> trail,
                                  kj::Maybe<kj::Exception> refusal) {
  return kj::heap<AuditedCall>(kj::mv(target), kj::mv(method), params, kj::mv(trail),
                               kj::mv(refusal));
}

}  // namespace talos
