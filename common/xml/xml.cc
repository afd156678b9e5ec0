#include "common/xml/xml.h"

#include <expat.h>
#include <kj/debug.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "common/memory/secret-buffer.h"

namespace talos {
namespace {

// Frees Expat's memory, which holds values of attributes, and pieces of the document.
void freeZeroed(void* memory) {
  if (memory != nullptr) explicit_bzero(memory, malloc_usable_size(memory));
  free(memory);
}
void* growZeroed(void* memory, size_t size) {
  void* larger = malloc(size);
  if (larger == nullptr || memory == nullptr) return larger;
  memcpy(larger, memory, kj::min(size, malloc_usable_size(memory)));
  freeZeroed(memory);
  return larger;
}
constexpr XML_Memory_Handling_Suite kZeroedMemory = {malloc, growZeroed, freeZeroed};

kj::StringPtr withoutPrefix(kj::StringPtr name) {
  KJ_IF_MAYBE (colon, name.findLast(':')) return name.slice(*colon + 1);
  return name;
}

struct XmlReader {
  XmlReader(XML_Parser parser, kj::StringPtr wanted) : parser(parser), wanted(wanted) {}
  XML_Parser parser;
  kj::StringPtr wanted;
  kj::Vector<XmlElement> found;
  struct Open {
    XmlElement element;
    unsigned depth;
    kj::Own<SecretBuffer> text = kj::heap<SecretBuffer>();
  };
  kj::Vector<Open> open;  // the wanted ones
  unsigned depth = 0;
  kj::StringPtr refused = "";  // the reason to stop

  void stop(kj::StringPtr reason) {
    refused = reason;
    XML_StopParser(parser, XML_FALSE);
  }
  static void declared(void* self, const XML_Char*, const XML_Char*, const XML_Char*, int) {
    static_cast<XmlReader*>(self)->stop("has a document type declaration, which is not read");
  }
  static void start(void* self, const XML_Char* name, const XML_Char** attributes) {
    auto& reader = *static_cast<XmlReader*>(self);
    ++reader.depth;
    if (withoutPrefix(name) != reader.wanted) return;
    if (reader.found.size() + reader.open.size() == kMostElements) {
      return reader.stop("has too many elements of one name");
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
    reader.open.back().text->add(kj::arrayPtr(text, static_cast<size_t>(size)));
  }
  static void end(void* self, const XML_Char*) {
    auto& reader = *static_cast<XmlReader*>(self);
    if (!reader.open.empty() && reader.open.back().depth == reader.depth) {
      auto& last = reader.open.back();
      last.element.text = last.text->copy();
      reader.found.add(kj::mv(last.element));
      reader.open.removeLast();
    }
    --reader.depth;
  }
};

}  // namespace

XmlElement::~XmlElement() noexcept(false) {
  zeroize(text);
  for (auto& each : attributes) zeroize(each.value.asArray());
}

kj::StringPtr XmlElement::attribute(kj::StringPtr name) const {
  for (auto& each : attributes) {
    if (each.name == name) return each.value;
  }
  return "";
}

kj::Vector<XmlElement> elementsCalled(kj::StringPtr name, kj::StringPtr what,
                                      kj::ArrayPtr<const char> document) {
  auto* parser = XML_ParserCreate_MM(nullptr, &kZeroedMemory, nullptr);
  KJ_REQUIRE(parser != nullptr);
  KJ_DEFER(XML_ParserFree(parser));
  XmlReader reader(parser, name);
  XML_SetUserData(parser, &reader);
  XML_SetElementHandler(parser, XmlReader::start, XmlReader::end);
  XML_SetCharacterDataHandler(parser, XmlReader::characters);
  XML_SetStartDoctypeDeclHandler(parser, XmlReader::declared);
  KJ_REQUIRE(document.size() <= size_t{1} << 30);
  auto size = static_cast<int>(document.size());
  if (XML_Parse(parser, document.begin(), size, XML_TRUE) == XML_STATUS_ERROR) {
    auto problem = kj::str("is not valid XML: ", XML_ErrorString(XML_GetErrorCode(parser)));
    if (reader.refused.size() > 0) problem = kj::str(reader.refused);
    fail(ErrorKind::kInvalidArgument,
         kj::str(what, ":", XML_GetCurrentLineNumber64(parser), ":",
                 XML_GetCurrentColumnNumber64(parser) + 1, ": ", problem));
  }
  return kj::mv(reader.found);
}

kj::Array<char> textOf(kj::StringPtr name, kj::StringPtr what, kj::ArrayPtr<const char> document) {
  auto all = elementsCalled(name, what, document);
  return all.empty() ? nullptr : kj::mv(all[0].text);
}

kj::String xmlEscaped(kj::StringPtr text) {
  kj::Vector<char> out;
  for (char c : text) {
    switch (c) {
      case '<':
        out.addAll("&lt;"_kj);
        break;
      case '>':
        out.addAll("&gt;"_kj);
        break;
      case '&':
        out.addAll("&amp;"_kj);
        break;
      case '"':
        out.addAll("&quot;"_kj);
        break;
      case '\t':
      case '\n':
      case '\r':  // in an attribute they would be read as blanks
        out.addAll(kj::str("&#", static_cast<int>(c), ';'));
        break;
      default:
        out.add(c);
    }
  }
  return kj::heapString(out.begin(), out.size());
}

}  // namespace talos
