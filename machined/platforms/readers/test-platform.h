// Returns the facts that a platform's reader extracts from answers, as one line of JSON without
// empty values.
#pragma once

#include <capnp/message.h>

#include <initializer_list>
#include <string>
#include <utility>

#include "common/yaml/yaml-codec.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {

using GivenAnswers = std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>>;

inline std::string shown(const PlatformFacts& facts) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<rpc::PlatformFacts>();
  facts.fill(root);
  codec::WriteOptions options;
  options.indent = 0;
  options.empties = codec::Empties::kOmit;
  return codec::writeJson(root.asReader(), options).cStr();
}

inline std::string factsOf(const Platform& platform, GivenAnswers given) {
  Answers answers;
  for (auto& [name, body] : given) answers.add(name, kj::heapArray(body.asArray()));
  PlatformFacts facts;
  read(platform, answers, facts);
  facts.platform = nullptr;  // the same in each
  return shown(facts);
}

}  // namespace talos::platforms
