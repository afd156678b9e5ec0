// Elements of XML documents (XML 1.0, namespaces), by expat.
//
// Names are matched without their prefixes: which prefix stands for which namespace is the writer's
// choice. A document with a document type declaration is refused, so there are no entities but
// those of XML itself. A machine config may be in it: what was read is zeroed.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos {

constexpr size_t kMostElements = 1000;

struct XmlElement {
  struct Attribute {
    kj::String name, value;
  };
  kj::Vector<Attribute> attributes;
  kj::Array<char> text;  // directly in it

  XmlElement() = default;
  XmlElement(XmlElement&&) = default;
  XmlElement& operator=(XmlElement&&) = default;
  ~XmlElement() noexcept(false);  // zeroes it

  kj::StringPtr attribute(kj::StringPtr name) const;  // empty: it has none
};

// All that have this name, with those of their attributes, in the order in which they end. `what`
// is for the message: "ovf-env.xml". InvalidArgument when the document is no XML, or has more than
// kMostElements of them.
kj::Vector<XmlElement> elementsCalled(kj::StringPtr name, kj::StringPtr what,
                                      kj::ArrayPtr<const char> document);
// The text of the first of them; empty: there is none. The caller's to zeroize().
kj::Array<char> textOf(kj::StringPtr name, kj::StringPtr what, kj::ArrayPtr<const char> document);

// The text as it is written in an element, or between the quotes of an attribute.
kj::String xmlEscaped(kj::StringPtr text);

}  // namespace talos
