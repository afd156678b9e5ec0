#include "machined/confined/parser/json-fields.h"

#include "common/base/error.h"

namespace talos::parse {

kj::Own<capnp::MallocMessageBuilder> parseJson(kj::ArrayPtr<const char> text) {
  auto message = kj::heap<capnp::MallocMessageBuilder>();
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 capnp::JsonCodec().decodeRaw(text, message->initRoot<capnp::json::Value>());
               })) {
    fail(ErrorKind::kInvalidArgument, kj::str("not valid JSON: ", messageOf(*e)));
  }
  return message;
}

kj::Maybe<Json> fieldOf(Json value, kj::StringPtr name) {
  if (!value.isObject()) return nullptr;
  for (auto field : value.getObject()) {
    if (field.getName() == name) return field.getValue();
  }
  return nullptr;
}

kj::String stringOf(Json value, kj::StringPtr name) {
  KJ_IF_MAYBE (field, fieldOf(value, name)) {
    if (field->isString()) return kj::str(field->getString());
  }
  return kj::String();
}

}  // namespace talos::parse
