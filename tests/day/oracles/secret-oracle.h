// Searches logs for the secrets of a cluster. Pure; a finding never contains the secret.
#pragma once

#include <string>
#include <vector>

namespace talos::day {

struct Secret {
  std::string name;  // "master-1.yaml: machine.token"
  std::string value;
};

// Returns the secrets of a machine config or a bundle of secrets in YAML: tokens, keys and secrets.
// The lines of a private key, which is PEM in base64, are secrets as well.
std::vector<Secret> secretsOf(const std::string& yaml, const std::string& file);

class SecretOracle {
 public:
  // Shorter values are no secrets: they would be found everywhere.
  static constexpr size_t kShortest = 12;

  void add(const Secret& secret);
  void add(const std::vector<Secret>& all);
  size_t known() const { return secrets.size(); }
  // Returns the names of the secrets in the text and the lines in which they are.
  std::string problem(const std::string& text, const std::string& log) const;

 private:
  std::vector<Secret> secrets;  // each value once
};

}  // namespace talos::day
