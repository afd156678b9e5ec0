// Elements of XML documents, by expat, which expands no entities of them beyond its limits.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::platforms {

constexpr size_t kMostElements = 1000;

struct XmlElement {
  struct Attribute {
    kj::String name, value;
  };
  kj::Vector<Attribute> attributes;
  kj::String text;  // directly in it

  kj::StringPtr attribute(kj::StringPtr name) const;  // empty: it has none
};

// All that have this name, whatever their prefixes, with those of their attributes in the order in
// which they end. `what` is for the message. InvalidArgument when it is no XML.
kj::Vector<XmlElement> elementsCalled(kj::StringPtr name, kj::StringPtr what,
                                      kj::ArrayPtr<const char> document);
// The text of the first of them; empty: there is none.
kj::String textOf(kj::StringPtr name, kj::StringPtr what, kj::ArrayPtr<const char> document);

}  // namespace talos::platforms
