// Elements of XML documents (XML 1.0, namespaces), with expat.
//
// Names are matched without their prefixes, because the writer chooses the prefix of a namespace. A
// document with a document type declaration is refused, so there are no entities but those of XML
// itself. A document may contain a machine config: the parser's memory is zeroed.
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
  kj::Array<char> text;  // text directly in the element

  XmlElement() = default;
  XmlElement(XmlElement&&) = default;
  XmlElement& operator=(XmlElement&&) = default;
  ~XmlElement() noexcept(false);  // zeroes the text

  kj::StringPtr attribute(kj::StringPtr name) const;  // empty if it has no such attribute
};

// Returns all elements with this name, with their attributes, in the order in which they end.
// `what` names the document in the message: "ovf-env.xml". Throws InvalidArgument if the document
// is not XML, or has more than kMostElements such elements.
kj::Vector<XmlElement> elementsCalled(kj::StringPtr name, kj::StringPtr what,
                                      kj::ArrayPtr<const char> document);
// Returns the text of the first of them; empty if no element matches. The caller must zeroize() it.
kj::Array<char> textOf(kj::StringPtr name, kj::StringPtr what, kj::ArrayPtr<const char> document);

// Returns the text escaped for an element, or for the quotes of an attribute.
kj::String xmlEscaped(kj::StringPtr text);

}  // namespace talos
