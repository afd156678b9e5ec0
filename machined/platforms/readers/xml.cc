#include "machined/platforms/readers/xml.h"

#include <expat.h>
#include <kj/common.h>

#include "common/base/error.h"

namespace talos::platforms {
namespace {

kj::StringPtr withoutPrefix(kj::StringPtr name) {
  KJ_IF_MAYBE (colon, name.findLast(':')) return name.slice(*colon + 1);
  return name;
}

struct XmlReader {
  explicit XmlReader(kj::StringPtr wanted) : wanted(wanted) {}
  kj::StringPtr wanted;
  kj::Vector<XmlElement> found;
  struct Open {
    XmlElement element;
    unsigned depth;
    kj::Vector<char> text = {};
  };
  kj::Vector<Open> open;  // those wanted
  unsigned depth = 0;
  bool many = false;

  static void start(void* self, const XML_Char* name, const XML_Char** attributes) {
    auto& reader = *static_cast<XmlReader*>(self);
    ++reader.depth;
    if (withoutPrefix(name) != reader.wanted) return;
    if (reader.found.size() + reader.open.size() == kMostElements) {
      reader.many = true;
      return;
    }
    XmlElement element;
    for (; *attributes != nullptr; attributes += 2) {
      element.attributes.add(
          XmlElement::Attribute{kj::str(withoutPrefix(attributes[0])), kj::str(attributes[1])});
    }
    reader.open.add(Open{kj::mv(element), reader.depth});
  }
  static void characters(void* self, const XML_Char* text, int size) {
    auto& reader = *static_cast<XmlReader*>(self);
    if (reader.open.empty() || reader.open.back().depth != reader.depth) return;
    reader.open.back().text.addAll(text, text + size);
  }
  static void end(void* self, const XML_Char*) {
    auto& reader = *static_cast<XmlReader*>(self);
    if (!reader.open.empty() && reader.open.back().depth == reader.depth) {
      auto& last = reader.open.back();
      last.element.text = kj::heapString(last.text.begin(), last.text.size());
      reader.found.add(kj::mv(last.element));
      reader.open.removeLast();
    }
    --reader.depth;
  }
};

}  // namespace

kj::StringPtr XmlElement::attribute(kj::StringPtr name) const {
  for (auto& each : attributes) {
    if (each.name == name) return each.value;
  }
  return "";
}

kj::Vector<XmlElement> elementsCalled(kj::StringPtr name, kj::StringPtr what,
                                      kj::ArrayPtr<const char> document) {
  auto* parser = XML_ParserCreate(nullptr);
  KJ_REQUIRE(parser != nullptr);
  KJ_DEFER(XML_ParserFree(parser));
  XmlReader reader(name);
  XML_SetUserData(parser, &reader);
  XML_SetElementHandler(parser, XmlReader::start, XmlReader::end);
  XML_SetCharacterDataHandler(parser, XmlReader::characters);
  auto size = static_cast<int>(document.size());
  if (XML_Parse(parser, document.begin(), size, XML_TRUE) == XML_STATUS_ERROR) {
    fail(ErrorKind::kInvalidArgument,
         kj::str(what, ":", XML_GetCurrentLineNumber64(parser), ":",
                 XML_GetCurrentColumnNumber64(parser) + 1,
                 ": not valid XML: ", XML_ErrorString(XML_GetErrorCode(parser))));
  }
  if (reader.many) {
    fail(ErrorKind::kInvalidArgument,
         kj::str(what, " has more than ", kMostElements, " elements ", name));
  }
  return kj::mv(reader.found);
}

kj::String textOf(kj::StringPtr name, kj::StringPtr what, kj::ArrayPtr<const char> document) {
  auto all = elementsCalled(name, what, document);
  return all.empty() ? kj::String() : kj::mv(all[0].text);
}

}  // namespace talos::platforms
