#include "talosctl/views/json-path.h"

#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <optional>
#include <string>

#include "common/base/error.h"

namespace talos::talosctl {

using kube::Json;

namespace {

constexpr unsigned kMostRanges = 16;  // nested ranges
constexpr unsigned kMostFilters = 8;

struct Step;
using Steps = std::vector<Step>;

// A filter. `left` alone tests if the field exists.
struct Filter {
  Steps left;
  std::string comparison;  // such as "==", or empty
  Steps right;
  Json constant;  // used if `rightIsPath` is false
  bool rightIsPath = false;
};

struct Step {
  enum class Kind { kName, kIndex, kSlice, kAll, kDescend, kUnion, kFilter } kind;
  std::string name = {};
  int64_t index = 0;
  std::optional<int64_t> from = {}, to = {}, stride = {};
  std::vector<Step> choices = {};  // alternatives of a union
  std::shared_ptr<const Filter> filter = {};
};

}  // namespace

struct JsonPathTemplate::Part {
  enum class Kind { kText, kPath, kRange } kind;
  std::string text = {};
  bool fromRoot = false;  // {$…}
  Steps steps = {};
  std::vector<Part> body = {};
};

namespace {

using Part = JsonPathTemplate::Part;
using Parts = std::vector<Part>;

class PathParser {
 public:
  explicit PathParser(kj::StringPtr text) : text(text.begin(), text.size()) {}

  Parts parse() {
    auto parts = parseParts(0);
    if (at < text.size()) wrong("{end} without {range}");
    return parts;
  }

 private:
  std::string text;
  size_t at = 0;
  unsigned filters = 0;

  [[noreturn]] void wrong(const std::string& message) const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < text.size(); ++i) {
      ++column;
      if (text[i] == '\n') ++line, column = 1;
    }
    fail(ErrorKind::kInvalidArgument,
         kj::str("jsonpath:", line, ":", column, ": ", message.c_str()));
  }
  bool has(const char* literal) const { return text.compare(at, strlen(literal), literal) == 0; }
  bool take(const char* literal) {
    if (!has(literal)) return false;
    at += strlen(literal);
    return true;
  }
  void expect(const char* literal, const char* behind) {
    if (!take(literal)) wrong(std::string("expected \"") + literal + "\" " + behind);
  }
  char peek() const { return at < text.size() ? text[at] : '\0'; }
  void skipBlanks() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n') ++at;
  }

  // Parses until the end of the text, or an {end}.
  Parts parseParts(unsigned depth) {
    Parts parts;
    while (at < text.size()) {
      if (peek() != '{') {
        auto open = std::min(text.find('{', at), text.size());
        parts.push_back(Part{.kind = Part::Kind::kText, .text = text.substr(at, open - at)});
        at = open;
        continue;
      }
      auto begin = at;
      ++at;
      skipBlanks();
      if (isKeyword("end")) {
        if (depth == 0) {
          at = begin;
          wrong("{end} without {range}");
        }
        at = begin;
        return parts;
      }
      parts.push_back(parseExpression(depth));
    }
    return parts;
  }

  bool isKeyword(const char* literal) const {
    auto end = at + strlen(literal);
    bool ends = end >= text.size() || text[end] == ' ' || text[end] == '}' || text[end] == '\t';
    return has(literal) && ends;
  }

  Part parseExpression(unsigned depth) {
    if (isKeyword("range")) return parseRange(depth);
    Part part{.kind = Part::Kind::kPath};
    if (peek() == '"' || peek() == '\'') {
      part.kind = Part::Kind::kText;
      part.text = quoted();
    } else {
      parsePath(part);
    }
    skipBlanks();
    expect("}", "at the end of the expression");
    return part;
  }

  Part parseRange(unsigned depth) {
    if (depth >= kMostRanges) wrong("more than 16 ranges inside each other");
    at += strlen("range");
    skipBlanks();
    Part part{.kind = Part::Kind::kRange};
    parsePath(part);
    skipBlanks();
    expect("}", "at the end of {range …}");
    part.body = parseParts(depth + 1);
    if (at >= text.size()) wrong("{range} without {end}");
    expect("{", "");
    skipBlanks();
    at += strlen("end");
    skipBlanks();
    expect("}", "behind {end");
    return part;
  }

  void parsePath(Part& part) {
    if (take("$")) {
      part.fromRoot = true;
    } else {
      take("@");
    }
    auto begin = at;
    part.steps = parseSteps();
    bool root = at > 0 && (text[at - 1] == '$' || text[at - 1] == '@');
    if (at == begin && !root) {
      wrong("expected a path such as .spec.name, or a text in quotes; functions are not supported");
    }
  }

  Steps parseSteps() {
    Steps steps;
    for (;;) {
      if (take("..")) {
        steps.push_back(Step{.kind = Step::Kind::kDescend});
        if (peek() != '[') parseNamed(steps);
      } else if (take(".")) {
        if (peek() == '[' || (steps.empty() && endsPath(peek()))) continue;  // for {.[0]} and {.}
        parseNamed(steps);
      } else if (take("[")) {
        steps.push_back(parseBracket());
      } else {
        return steps;
      }
    }
  }

  static bool endsPath(char c) {
    return c == '\0' || c == '}' || c == ' ' || c == '\t' || c == '\n' || c == ')' || c == '=' ||
           c == '!' || c == '<' || c == '>' || c == '&' || c == '|';
  }

  void parseNamed(Steps& steps) {
    if (take("*")) {
      steps.push_back(Step{.kind = Step::Kind::kAll});
      return;
    }
    std::string name;
    while (!endsPath(peek()) && peek() != '.' && peek() != '[') {
      if (peek() == '\\' && at + 1 < text.size()) ++at;
      if (peek() == '(' || peek() == '{') wrong("functions are not supported");
      name += text[at++];
    }
    if (name.empty()) wrong("expected a name behind the dot");
    steps.push_back(Step{.kind = Step::Kind::kName, .name = std::move(name)});
  }

  std::string quoted() {
    char quote = text[at++];
    std::string out;
    while (peek() != quote) {
      if (at >= text.size()) wrong("a text in quotes does not end");
      char c = text[at++];
      if (c == '\\' && at < text.size()) {
        c = text[at++];
        c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
      }
      out += c;
    }
    ++at;
    return out;
  }

  std::optional<int64_t> number() {
    auto begin = at;
    if (peek() == '-') ++at;
    while ('0' <= peek() && peek() <= '9') ++at;
    auto digits = text.substr(begin, at - begin);
    if (digits.empty()) return {};
    if (digits == "-" || digits.size() > 10) wrong("\"" + digits + "\" is not a valid index");
    return strtoll(digits.c_str(), nullptr, 10);
  }

  // Parses the text after "[".
  Step parseBracket() {
    skipBlanks();
    if (take("?(")) return parseFilter();
    std::vector<Step> choices;
    do {
      skipBlanks();
      choices.push_back(parseChoice());
      skipBlanks();
    } while (take(","));
    expect("]", "at the end of the index");
    if (choices.size() == 1) return choices[0];
    return Step{.kind = Step::Kind::kUnion, .choices = std::move(choices)};
  }

  Step parseChoice() {
    if (take("*")) return Step{.kind = Step::Kind::kAll};
    if (peek() == '\'' || peek() == '"') return Step{.kind = Step::Kind::kName, .name = quoted()};
    auto first = number();
    if (!has(":")) {
      if (!first) wrong("expected an index, a name in quotes, * or a filter ?(…)");
      return Step{.kind = Step::Kind::kIndex, .index = *first};
    }
    Step slice{.kind = Step::Kind::kSlice, .from = first};
    take(":");
    slice.to = number();
    if (take(":")) slice.stride = number();
    if (slice.stride.value_or(1) <= 0) wrong("the stride of a slice must be at least 1");
    return slice;
  }

  // Parses the text after "[?(".
  Step parseFilter() {
    if (++filters > kMostFilters) wrong("more than 8 filters");
    auto filter = std::make_shared<Filter>();
    skipBlanks();
    expect("@", "at the begin of a filter");
    filter->left = parseSteps();
    skipBlanks();
    for (auto comparison : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (!take(comparison)) continue;
      filter->comparison = comparison;
      skipBlanks();
      parseOperand(*filter);
      break;
    }
    skipBlanks();
    if (has("&&") || has("||")) wrong("a filter has one comparison; && and || are not supported");
    expect(")", "at the end of the filter");
    skipBlanks();
    expect("]", "behind the filter");
    return Step{.kind = Step::Kind::kFilter, .filter = std::move(filter)};
  }

  void parseOperand(Filter& filter) {
    if (peek() == '"' || peek() == '\'') {
      filter.constant = quoted();
    } else if (take("@")) {
      filter.rightIsPath = true;
      filter.right = parseSteps();
    } else {
      std::string literal;
      while (!endsPath(peek())) literal += text[at++];
      char* end = nullptr;
      auto value = strtod(literal.c_str(), &end);
      if (literal == "true" || literal == "false") {
        filter.constant = literal == "true";
      } else if (!literal.empty() && *end == '\0') {
        filter.constant = value;
      } else {
        wrong("expected a text in quotes, a number, true or false in the comparison");
      }
    }
  }
};

using Values = std::vector<const Json*>;

// Limit of the values that one evaluation may still read, with all of its ranges and filters.
struct Budget {
  size_t left = JsonPathTemplate::kMostResults;
};

void addValue(Budget& budget, Values& values, const Json& value) {
  if (budget.left == 0) {
    fail(ErrorKind::kResourceExhausted,
         kj::str("jsonpath: more than ", JsonPathTemplate::kMostResults, " results"));
  }
  --budget.left;
  values.push_back(&value);
}

void descend(Budget& budget, const Json& value, Values& values) {
  addValue(budget, values, value);
  if (!value.is_structured()) return;
  for (auto& child : value) descend(budget, child, values);
}

Values apply(Budget& budget, const Steps& steps, const Json& start);

bool compare(const Json& a, const std::string& comparison, const Json& b) {
  bool numbers = a.is_number() && b.is_number();
  if (a.type() != b.type() && !numbers) return comparison == "!=";
  if (comparison == "==") return a == b;
  if (comparison == "!=") return a != b;
  if (!numbers && !a.is_string()) return false;
  return comparison == "<"    ? a < b
         : comparison == "<=" ? a <= b
         : comparison == ">"  ? a > b
                              : a >= b;
}

bool passes(Budget& budget, const Filter& filter, const Json& item) {
  auto left = apply(budget, filter.left, item);
  if (filter.comparison.empty()) return !left.empty();
  if (left.empty()) return false;
  if (!filter.rightIsPath) return compare(*left[0], filter.comparison, filter.constant);
  auto right = apply(budget, filter.right, item);
  return !right.empty() && compare(*left[0], filter.comparison, *right[0]);
}

void applySlice(Budget& budget, const Step& step, const Json& value, Values& out) {
  auto size = static_cast<int64_t>(value.size());
  auto place = [size](int64_t i) { return std::clamp(i < 0 ? i + size : i, int64_t{0}, size); };
  auto end = place(step.to.value_or(size));
  for (auto i = place(step.from.value_or(0)); i < end; i += step.stride.value_or(1)) {
    addValue(budget, out, value[static_cast<size_t>(i)]);
  }
}

void applyStep(Budget& budget, const Step& step, const Json& value, Values& out) {
  switch (step.kind) {
    case Step::Kind::kName: {
      if (!value.is_object()) return;
      auto found = value.find(step.name);
      if (found != value.end()) addValue(budget, out, *found);
      return;
    }
    case Step::Kind::kIndex: {
      if (!value.is_array()) return;
      auto index = step.index < 0 ? step.index + static_cast<int64_t>(value.size()) : step.index;
      if (0 <= index && index < static_cast<int64_t>(value.size())) {
        addValue(budget, out, value[static_cast<size_t>(index)]);
      }
      return;
    }
    case Step::Kind::kSlice:
      if (value.is_array()) applySlice(budget, step, value, out);
      return;
    case Step::Kind::kAll:
      if (!value.is_structured()) return;
      for (auto& child : value) addValue(budget, out, child);
      return;
    case Step::Kind::kDescend:
      return descend(budget, value, out);
    case Step::Kind::kUnion:
      for (auto& choice : step.choices) applyStep(budget, choice, value, out);
      return;
    case Step::Kind::kFilter:
      if (!value.is_array()) return;
      for (auto& child : value) {
        if (passes(budget, *step.filter, child)) addValue(budget, out, child);
      }
      return;
  }
}

Values apply(Budget& budget, const Steps& steps, const Json& start) {
  Values values{&start};
  for (auto& step : steps) {
    Values next;
    for (auto* value : values) applyStep(budget, step, *value, next);
    values = std::move(next);
  }
  return values;
}

void write(const Json& value, std::string& out) {
  if (value.is_string()) {
    out += value.get_ref<const std::string&>();
  } else if (!value.is_null()) {
    out += value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

void evaluateParts(Budget& budget, const Parts& parts, const Json& root, const Json& current,
                   std::string& out) {
  for (auto& part : parts) {
    if (part.kind == Part::Kind::kText) {
      out += part.text;
      continue;
    }
    auto values = apply(budget, part.steps, part.fromRoot ? root : current);
    if (part.kind == Part::Kind::kRange) {
      for (auto* value : values) evaluateParts(budget, part.body, root, *value, out);
      continue;
    }
    bool first = true;
    for (auto* value : values) {
      if (!first) out += ' ';
      first = false;
      write(*value, out);
    }
  }
}

}  // namespace

JsonPathTemplate::JsonPathTemplate(kj::StringPtr text) : parts(PathParser(text).parse()) {}
JsonPathTemplate::JsonPathTemplate(JsonPathTemplate&&) noexcept = default;
JsonPathTemplate::~JsonPathTemplate() noexcept(false) {}

kj::String JsonPathTemplate::evaluate(const Json& document) const {
  std::string out;
  Budget budget;
  evaluateParts(budget, parts, document, document, out);
  return kj::heapString(out.data(), out.size());
}

}  // namespace talos::talosctl
