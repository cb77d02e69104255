% Solves random networks with Octave's package `queueing`. From this folder:
%
%   apt-get install octave-queueing
%   octave-cli networks.m > networks.toml
%
% The tests in tests/oracle.rs compare the answers that are stored in networks.toml.

warning("off", "all");
pkg load queueing

function text = list(values)
  text = ["[" strjoin(arrayfun(@(v) sprintf("%.17g", v), values(:)', "UniformOutput", false), ", ") "]"];
end

function print_list(name, values)
  printf("%s = %s\n", name, list(values));
end

function print_matrix(name, matrix)
  lines = arrayfun(@(i) list(matrix(i, :)), 1:size(matrix, 1), "UniformOutput", false);
  printf("%s = [%s]\n", name, strjoin(lines, ", "));
end

packages = pkg("list");
named = cellfun(@(p) strcmp(p.name, "queueing"), packages);
printf("# Made by networks.m with Octave %s and its package queueing %s.\n", version, packages{named}.version);
printf("# 0 servers are a delay. Matrices have a row for each station.\n");

% A generator that is the same in every release of Octave.
global state = 2014;
function u = draw()
  global state
  state = mod(16807 * state, 2147483647);
  u = state / 2147483647;
end
function m = draws(r, c, low, high)
  m = zeros(r, c);
  for i = 1:r
    for j = 1:c
      m(i, j) = round((low + (high - low) * draw()) * 1000) / 1000;
    end
  end
end

for case_number = 1:40
  several = case_number > 20;
  classes = 1 + mod(case_number, 3);
  stations = 1 + mod(case_number, 4);
  customers = floor(draws(1, classes, 1, 8));
  think = draws(1, classes, 0.5, 10);
  servers = ones(1, stations);
  visits = draws(classes, stations, 0.2, 3);
  service = draws(classes, stations, 0.1, 2);
  for k = 1:stations
    if several
      servers(k) = floor(draws(1, 1, 1, 5));
      service(:, k) = service(1, k);
    elseif draw() < 0.2
      servers(k) = 0;
    end
  end
  % The package takes fewer than one server for a delay.
  of_package = servers - (servers == 0);
  [U, R, Q, X] = qncmmva(customers, service, visits, of_package, think);
  printf("\n[[closed]]\n");
  print_list("servers", servers);
  print_list("customers", customers);
  print_list("think", think);
  print_matrix("visits", visits');
  print_matrix("service", service');
  print_list("throughput", X(:, 1) ./ visits(:, 1));
  print_matrix("residence", (R .* visits)');
  if !several
    [U, R, Q, X] = qncmmvabs(customers, service, visits, of_package, think, 1e-14, 100000);
    print_list("schweitzer", X(:, 1) ./ visits(:, 1));
  end
end

for case_number = 1:10
  service = draws(1, 1, 0.1, 2);
  square = service ^ 2 * draws(1, 1, 1, 4);
  rate = draws(1, 1, 0.1, 0.95) / service;
  [U, R, Q, X, p0] = qsmg1(rate, service, square);
  printf("\n[[open]]\n");
  printf("rate = %.17g\nservice = %.17g\nservice_square = %.17g\nresponse = %.17g\n", rate, service, square, R);
end
