// JSONPath templates in kubectl's form, for `get -o jsonpath=…`: text with expressions in braces.
//
//   {.metadata.id}  {.spec['a.b']}  {.spec.list[0]} [-1] [1:3] [::2] [*] [0,2]  {.spec.*}  {..name}
//   {.spec.list[?(@.a=="b")].c}     == != < <= > >=, or nothing: the field exists
//   {range .spec.list[*]}{.name}{"\n"}{end}     {@} {$} {"text"}
//
// Results of one expression are separated by a blank; texts are written unchanged, mappings and
// lists as JSON. A missing field yields an empty result. Any other syntax is refused with its
// place: `jsonpath:1:7: …`. Parser and evaluation are bounded: depth of ranges, number of results.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include <memory>
#include <vector>

#include "common/kube/json.h"

namespace talos::talosctl {

class JsonPathTemplate {
 public:
  // Parses the template. InvalidArgument, with the place, for unsupported syntax.
  explicit JsonPathTemplate(kj::StringPtr text);
  JsonPathTemplate(JsonPathTemplate&&) noexcept;
  ~JsonPathTemplate() noexcept(false);

  // Evaluates the template. ResourceExhausted if the expressions together, with their ranges and
  // filters and each step, yield more than kMostResults values.
  kj::String evaluate(const kube::Json& document) const;

  static constexpr size_t kMostResults = 100'000;
  struct Part;

 private:
  std::vector<Part> parts;
};

}  // namespace talos::talosctl
