// Alerts read and evaluated by Prometheus's own code: `alerts RULES EXAMPLES QUERIES`.
//
// RULES and EXAMPLES are files for `promtool check rules` and `promtool test rules`, of which the second
// may have promql_expr_test only; QUERIES is a list of expressions, which are parsed. It is not promtool,
// because that compiles the clients of every cloud too, which takes four times as long.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"go.yaml.in/yaml/v2"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

type examples struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []example      `yaml:"tests"`
}

type example struct {
	Name        string         `yaml:"name"`
	Interval    model.Duration `yaml:"interval"`
	InputSeries []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	Queries []struct {
		Expr       string         `yaml:"expr"`
		EvalTime   model.Duration `yaml:"eval_time"`
		ExpSamples []struct {
			Labels string  `yaml:"labels"`
			Value  float64 `yaml:"value"`
		} `yaml:"exp_samples"`
	} `yaml:"promql_expr_test"`
}

var language = parser.NewParser(parser.Options{})

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run(ruleFile, exampleFile, queryFile string) error {
	groups, errs := rulefmt.ParseFile(ruleFile, false, model.UTF8Validation, language, promslog.NewNopLogger())
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	var queries []string
	if err := read(queryFile, &queries); err != nil {
		return err
	}
	for _, query := range queries {
		if _, err := language.ParseExpr(query); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
	}
	var all examples
	if err := read(exampleFile, &all); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, example := range all.Tests {
		if err := example.hold(ruleFile, time.Duration(all.EvaluationInterval), seen); err != nil {
			return fmt.Errorf("%s: %w", example.Name, err)
		}
	}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			if !seen[rule.Alert] {
				return fmt.Errorf("no example raises %s", rule.Alert)
			}
		}
	}
	fmt.Printf("%d alerts, %d queries, %d examples\n", len(seen), len(queries), len(all.Tests))
	return nil
}

func read(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return yaml.UnmarshalStrict(text, into)
}

// hold evaluates the rules on the series, step by step, and compares what follows. What was raised is
// added to seen.
func (e *example) hold(ruleFile string, step time.Duration, seen map[string]bool) error {
	load := fmt.Sprintf("load %s\n", e.Interval)
	for _, series := range e.InputSeries {
		load += fmt.Sprintf("  %s %s\n", series.Series, series.Values)
	}
	suite, err := promqltest.NewLazyLoader(load, promqltest.LazyLoaderOpts{})
	if err != nil {
		return err
	}
	defer suite.Close()
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:  rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()),
		Appendable: suite.Storage(),
		Context:    context.Background(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger:     promslog.NewNopLogger(),
		Parser:     language,
	})
	groups, errs := manager.LoadGroups(step, labels.EmptyLabels(), "", nil, false, ruleFile)
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, group := range groups {
		for _, rule := range group.AlertingRules() {
			// Without this no series ALERTS is written.
			rule.SetRestored(true)
		}
	}
	var end time.Duration
	for _, query := range e.Queries {
		end = max(end, time.Duration(query.EvalTime))
	}
	start := time.Unix(0, 0).UTC()
	for now := start; !now.After(start.Add(end)); now = now.Add(step) {
		var failed error
		suite.WithSamplesTill(now, func(err error) { failed = err })
		for _, group := range groups {
			group.Eval(suite.Context(), now)
			for _, rule := range group.AlertingRules() {
				failed = errors.Join(failed, rule.LastError(), raised(rule, seen))
			}
		}
		if failed != nil {
			return failed
		}
	}
	for _, query := range e.Queries {
		var expected []string
		for _, sample := range query.ExpSamples {
			metric, err := language.ParseMetric(sample.Labels)
			if err != nil {
				return err
			}
			expected = append(expected, fmt.Sprintf("%s %v", metric, sample.Value))
		}
		at := start.Add(time.Duration(query.EvalTime))
		asked, err := suite.QueryEngine().NewInstantQuery(suite.Context(), suite.Queryable(), nil, query.Expr, at)
		if err != nil {
			return err
		}
		result, err := asked.Exec(suite.Context()).Vector()
		if err != nil {
			return err
		}
		if got := shown(result); !slices.Equal(got, sorted(expected)) {
			return fmt.Errorf("%s after %s:\n  expected %q\n  got      %q", query.Expr, query.EvalTime, expected, got)
		}
	}
	return nil
}

// raised notes an alert that fires, and looks whether its words could be written.
func raised(rule *rules.AlertingRule, seen map[string]bool) error {
	for _, alert := range rule.ActiveAlerts() {
		if alert.State == rules.StateFiring {
			seen[rule.Name()] = true
		}
		if said := alert.Annotations.String(); strings.Contains(said, "error expanding template") {
			return errors.New(said)
		}
	}
	return nil
}

func shown(vector promql.Vector) []string {
	var samples []string
	for _, sample := range vector {
		samples = append(samples, fmt.Sprintf("%s %v", sample.Metric, sample.F))
	}
	return sorted(samples)
}

func sorted(texts []string) []string {
	slices.Sort(texts)
	return texts
}
