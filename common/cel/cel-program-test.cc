#include "common/cel/cel-program.h"

#include <gmock/gmock.h>

#include "common/cel/oom-expressions.h"

namespace talos::cel {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string shown(const Value& value) {
  switch (value.type) {
    case Type::kBool:
      return value.flag ? "true" : "false";
    case Type::kInt:
      return std::to_string(value.integer);
    case Type::kUint:
      return std::to_string(value.natural) + "u";
    case Type::kDouble:
      return kj::str(value.number).cStr();
    case Type::kText:
      return "\"" + value.text + "\"";
    case Type::kDuration:
      return std::to_string(value.integer) + "ns";
    default:
      return nameOf(value.type).cStr();
  }
}

// Returns the value of an expression, or its mistake.
std::string result(kj::StringPtr text) {
  Environment environment;
  environment.constants = {{"System", Value::of(int64_t{4})}, {"KiB", Value::of(uint64_t{1024})}};
  environment.variables = {{"x", Type::kDouble},
                           {"m", Type::kVector},
                           {"path", Type::kText},
                           {"some", Type::kOptionalUint},
                           {"none", Type::kOptionalUint}};
  Values values{{"x", Value::of(2.5)},
                {"m", Value::of(Vector{{1, 10.0}, {4, 0.5}})},
                {"path", Value::of("kubepods/a"_kj)},
                {"some", Value::of(kj::Maybe<uint64_t>(7))},
                {"none", Value::of(kj::Maybe<uint64_t>(nullptr))}};
  // The type of the result is that of the only compilation without a mistake.
  std::string mistake;
  for (auto type : {Type::kBool, Type::kInt, Type::kUint, Type::kDouble, Type::kText,
                    Type::kDuration, Type::kVector, Type::kOptionalUint}) {
    auto compiled = compile(text, environment, type);
    KJ_IF_MAYBE (m, compiled.mistake) {
      auto rendered = std::string(render(text, *m).cStr());
      if (rendered.find("the result must be") == rendered.npos) mistake = rendered;
      continue;
    }
    auto evaluated = compiled.program.run(values);
    KJ_IF_MAYBE (m, evaluated.mistake) return std::string("fails ") + render(text, *m).cStr();
    return shown(evaluated.value);
  }
  return mistake;
}

struct Row {
  const char *text, *result;
};

// Catches: another precedence or direction than that of CEL; arithmetic of one type with the
// operators of another; a branch that is evaluated although it is not chosen.
TEST(CelProgram, ExpressionsHaveTheValuesOfCel) {
  const Row rows[] = {
      {"1 + 2 * 3", "7"},
      {"(1 + 2) * 3", "9"},
      {"7 - 2 - 1", "4"},
      {"-7 / 2", "-3"},
      {"-7 % 4", "-3"},
      {"7u % 4u", "3u"},
      {"1.5 * 2.0 - x", "0.5"},
      {"1.0 / 0.0", "inf"},
      {"1e3", "1000"},
      {".5", "0.5"},
      {"2u * KiB", "2048u"},
      {"'a' + \"b\"", "\"ab\""},
      {"1 < 2 && 2 <= 2 || false", "true"},
      {"true || false && false", "true"},
      {"!true || !false", "true"},
      {"1 == 1.0 && 2u > 1 && 2.5 >= 2u", "true"},
      {"'a' < 'b' && 'a' != 'b'", "true"},
      {"false ? 1 : true ? 2 : 3", "2"},
      {"false && 1 / 0 == 1", "false"},
      {"true ? 1 : 1 / 0", "1"},
      {"1 / 0 == 1 && false", "false"},
      {"none.value() > 1u || !none.hasValue()", "true"},
      {"m[System] + m[1]", "10.5"},
      {"{System: 2.0, 1: 3.0,}[4]", "2"},
      {"size({}) + m.size()", "2"},
      {"4 in m && !(5 in m)", "true"},
      {"path in ['a', path] && !(path in ['a',]) && !(1 in [])", "true"},
      {"2u in [1, 2] && !(3u in [1.0, 2.0])", "true"},
      {"multiply_qos_vectors(m, {System: 4.0, 2: 1.0})", "2"},
      {"duration('1m30s') - duration('-5s')", "95000000000ns"},
      {"duration('5s') > duration('4999ms')", "true"},
      {"int(2.9) + int(3u)", "5"},
      {"uint(2) + uint(2.9)", "4u"},
      {"double(1) + double(2u)", "3"},
      {"some.hasValue() && !none.hasValue()", "true"},
      {"some.value() + none.orValue(1u)", "8u"},
      {"path.startsWith('kube') && path.endsWith('/a') && path.contains('pods')", "true"},
      {"-9223372036854775807 - 1", "-9223372036854775808"},
  };
  for (auto& row : rows) EXPECT_EQ(row.result, result(row.text)) << row.text;
}

// Catches: a mistake that is found only when memory is short; a place that is not that of the
// mistake.
TEST(CelProgram, MistakesAreFoundWithTheirPlaceBeforeTheProgramRuns) {
  const Row rows[] = {
      {"", "at its end: an operand is missing"},
      {"1 +", "at its end: an operand is missing"},
      {"1 2", "at \"2\": this is not expected"},
      {"(1", "at its end: expected )"},
      {"'a", "at its end: the text has no end"},
      {"'\\n'", "at \"\\\\n'\": texts here have no"},
      {"0x10", "at \"0x10\": numbers here are decimal"},
      {"99999999999999999999", "at \"99999999999999999999\": the number is too large"},
      {"9223372036854775808", "at \"9223372036854775808\": the number is too large"},
      {"1x", "at \"x\": this is not expected"},
      {"1 + 2.0", "at \"1 + 2.0\": + does not take int and double; write 1.0"},
      {"1u + 1", "at \"1u + 1\": + does not take uint and int; write 1u"},
      {"100 * KiB", "at \"100 * KiB\": * does not take int and uint; write 100u"},
      {"8 * 1.5", "at \"8 * 1.5\": * does not take int and double; write 8.0"},
      {"some.value() + int(1u)",
       "at \"some.value() + int(1…\": + does not take uint and int; "
       "convert one of them, as with uint()"},
      {"!1", "at \"!1\": ! does not take int"},
      {"true + false", "at \"true + false\": + does not take bool and bool"},
      {"1 && true", "at \"1 && true\": expected a bool, and this is a int"},
      {"true ? 1 : 2.0", "at \"2.0\": expected a int, and this is a double"},
      {"y > 1.0", "at \"y > 1.0\": there is no variable y"},
      {"path.matches('a')", "at \"path.matches('a')\": this system has no method matches()"},
      {"max(1, 2)", "at \"max(1, 2)\": this system has no function max()"},
      {"path.size", "at \"path.size\": there is no variable path.size"},
      {"{System: 8}[4]", "at \"8}[4]\": a value of a map is a double, such as 8.0"},
      {"{'a': 8.0}[4]", "at \"'a': 8.0}[4]\": a key of a map is an int"},
      {"duration('5')", "at \"'5')\": not a valid duration"},
      {"[1]", "at \"[1]\": a list stands after `in` only"},
      {"[1", "at its end: expected ]"},
      {"in()", "at \"in()\": in does not take no arguments"},
      {"path in ['a', 1]", "at \"1]\": expected a string, and this is a int"},
      {"pth == 'a'", "at \"pth == 'a'\": there is no variable pth (did you mean path?)"},
  };
  for (auto& row : rows) EXPECT_THAT(result(row.text), StartsWith(row.result)) << row.text;
}

// Catches: a wrong number in the place of a failure, which kills or spares a pod.
TEST(CelProgram, EvaluationsWithoutAResultAreMistakes) {
  const Row rows[] = {
      {"1 in [1, 1 / 0]", "fails at \"1 / 0]\": division by zero"},
      {"1 / 0", "fails at \"1 / 0\": division by zero"},
      {"1 / 0 == 1 || 1 > 2", "fails at \"1 / 0 == 1 || 1 > 2\": division by zero"},
      {"true && 1 / 0 == 1", "fails at \"1 / 0 == 1\": division by zero"},
      {"1u % 0u", "fails at \"1u % 0u\": division by zero"},
      {"9223372036854775807 + 1", "fails at \"9223372036854775807 …\": the result is too large"},
      {"1u - 2u", "fails at \"1u - 2u\": the result is too large"},
      {"uint(-1)", "fails at \"uint(-1)\": a uint is not negative"},
      {"int(1e30)", "fails at \"int(1e30)\": the result is too large"},
      {"m[3]", "fails at \"m[3]\": the map has no such key"},
      {"none.value()", "fails at \"none.value()\": there is no value"},
      {"{1: 1.0, 1: 2.0}[1]", "fails at \"1: 2.0}[1]\": the map has this key twice"},
      {"duration(path) > duration('1s')",
       "fails at \"duration(path) > dur…\": not a valid duration"},
  };
  for (auto& row : rows) EXPECT_THAT(result(row.text), StartsWith(row.result)) << row.text;
}

// Catches: a stack that a user's text exhausts.
TEST(CelProgram, DeepAndLongTextsAreMistakes) {
  for (auto part : {"(", "!", "-", "{", "[", "a[", "a(", "true ? ", "1 + ", "a."}) {
    std::string text;
    for (int i = 0; i < 2000; ++i) text += part;
    EXPECT_NE("", result(text.c_str())) << part;
  }
  std::string chain = "1";
  for (int i = 0; i < 1000; ++i) chain += "+1";
  EXPECT_THAT(result(chain.c_str()), HasSubstr("too many parts"));
  EXPECT_THAT(result(std::string(5000, ' ').c_str()), HasSubstr("more than 4096 characters"));
}

// Catches: a default that does not compile; a variable of the documents that is missing.
TEST(OomExpressions, DefaultsAndEachVariableOfTheDocumentsCompile) {
  EXPECT_TRUE(compileTrigger("").mistake == nullptr);
  EXPECT_TRUE(compileRanking("").mistake == nullptr);
  for (auto text :
       {"memory_full_avg300 > 1.0 && d_memory_some_total > 1.0"_kj,
        "qos_memory_some_avg60[Guaranteed] > d_qos_memory_full_avg10[Besteffort]"_kj,
        "qos_memory_current[System] > double(2u * GiB) || d_qos_memory_peak[Podruntime] > 0.0"_kj,
        "qos_memory_max[Burstable] < double(EB) && time_since_trigger > duration('1m')"_kj}) {
    EXPECT_TRUE(compileTrigger(text).mistake == nullptr) << text.cStr();
  }
  EXPECT_TRUE(compileRanking("class == Besteffort && path.contains('pod') ? "
                             "double(memory_current.orValue(0u) + memory_peak.orValue(kB)) : 0.0")
                  .mistake == nullptr);
  EXPECT_FALSE(compileTrigger("1.0").mistake == nullptr);
  EXPECT_FALSE(compileRanking("memory_current").mistake == nullptr);
  EXPECT_FALSE(compileRanking("memory_full_avg10").mistake == nullptr) << "of the trigger alone";
}

}  // namespace
}  // namespace talos::cel
