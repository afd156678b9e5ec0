// validate: validates a machine config without a node.
#include "common/base/file.h"
#include "common/config/config.h"
#include "common/memory/zeroize.h"
#include "common/text/foreign-text.h"
#include "common/yaml/yaml-codec.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/standard-input.h"
#include "talosctl/configure/configure-commands.h"

namespace talos::talosctl {

namespace {

using Severity = Problem::Severity;

constexpr size_t kMostValidatedBytes = 64u << 20;

kj::String jsonOf(const Problem& problem) {
  auto member = [](kj::StringPtr name, kj::StringPtr value) {
    return kj::str(",\n            \"", name, "\": ", jsonString(value));
  };
  return kj::str("        {\n            \"severity\": \"",
                 problem.severity == Severity::kError ? "error" : "warning", "\"",
                 ",\n            \"line\": ", problem.line,
                 ",\n            \"column\": ", problem.column, member("path", problem.path),
                 member("message", problem.message), member("hint", problem.hint), "\n        }");
}

kj::String jsonOf(kj::StringPtr file, kj::StringPtr mode, bool valid, const Problems& problems) {
  auto items = KJ_MAP(problem, problems) {
    return jsonOf(problem);
  };
  return kj::str("{\n    \"file\": ", jsonString(file), ",\n    \"mode\": ", jsonString(mode),
                 ",\n    \"valid\": ", valid, ",\n    \"problems\": [",
                 items.size() > 0 ? "\n" : "", kj::strArray(items, ",\n"),
                 items.size() > 0 ? "\n    " : "", "]\n}\n");
}

kj::String yamlOf(kj::StringPtr file, kj::StringPtr mode, bool valid, const Problems& problems) {
  auto entry = [](kj::StringPtr key, kj::StringPtr value) {
    return kj::str("      ", key, ": ", codec::yamlScalar(value), "\n");
  };
  auto items = KJ_MAP(problem, problems) {
    return kj::str("    - severity: ", problem.severity == Severity::kError ? "error" : "warning",
                   "\n      line: ", problem.line, "\n      column: ", problem.column, "\n",
                   entry("path", problem.path), entry("message", problem.message),
                   entry("hint", problem.hint));
  };
  return kj::str("file: ", codec::yamlScalar(file), "\nmode: ", mode, "\nvalid: ", valid,
                 "\nproblems:", items.size() > 0 ? "\n" : " []\n", kj::strArray(items, ""));
}

kj::Promise<int> runValidate(Invocation& call) {
  auto file = nameOfInput(call.text("config")), mode = call.text("mode");
  using config::UnknownDocuments;
  bool allows = call.on("allow-unknown-documents");
  if (allows && call.on("strict")) {
    failUsage(
        "--strict treats the warnings of --allow-unknown-documents as errors; use one of them");
  }
  // More than the parser accepts, so that the parser reports its limit.
  auto text = co_await readFileOrInput(call.deps, call.text("config"), kMostValidatedBytes);
  KJ_DEFER(zeroize(text));
  auto config =
      config::parse(text, file, allows ? UnknownDocuments::kAllowed : UnknownDocuments::kRefused);
  Problems problems;
  for (auto& p : config.problems()) problems.add(p.clone());
  // The checks for the mode need a config without errors.
  if (config.good())
    config::checkMode(config, KJ_ASSERT_NONNULL(config::modeNamed(mode)), file, problems);
  if (call.on("strict")) {
    for (auto& problem : problems) problem.severity = Severity::kError;
  }
  bool valid = !hasErrors(problems);
  if (auto form = call.text("output"); form != "text") {
    call.out(form == "json" ? jsonOf(file, mode, valid, problems)
                            : yamlOf(file, mode, valid, problems));
    co_return valid ? 0 : 1;
  }
  Problems errors;
  for (auto& problem : problems) {
    if (problem.severity == Severity::kWarning) {
      problem.severity = Severity::kError;  // the line already begins with WARNING
      call.err(printableText(kj::str("WARNING: ", problem.toString(), "\n")));
    } else {
      errors.add(kj::mv(problem));
    }
  }
  if (!valid) {
    call.err(printableText(render(errors)));
    co_return 1;
  }
  call.out(printableText(kj::str(file, " is valid for ", mode, " mode\n")));
  co_return 0;
}

}  // namespace

void addValidateCommand(Command& root) {
  auto& validate = root.add("validate", "Validate a machine config");
  validate.details =
      "Shows the problems with file, line and column, the first hundred errors and warnings. "
      "Warnings make a config invalid only with --strict.";
  validate.flag({.name = "allow-unknown-documents",
                 .help = "only warn of a document with an unknown kind; a node refuses it"});
  validate.flag({.name = "config",
                 .letter = "c",
                 .kind = FlagKind::kText,
                 .help = "file with the machine config, or - for standard input",
                 .required = true});
  validate.flag({.name = "mode",
                 .letter = "m",
                 .kind = FlagKind::kText,
                 .help = "where the machine will run",
                 .choices = {"metal", "cloud", "container"},
                 .required = true});
  validate.flag({.name = "strict", .help = "treat warnings as errors"});
  validate.flag({.name = "output",
                 .letter = "o",
                 .kind = FlagKind::kText,
                 .fallback = "text",
                 .help = "output format",
                 .choices = {"text", "yaml", "json"}});
  validate.run = runValidate;
}

}  // namespace talos::talosctl
